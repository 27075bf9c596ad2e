"""From samples to token ids, and which of them carry loss.

The whole text of a sample is tokenised once, so that the tokens are those of the text; a token carries loss
when any of its characters lies in the assistant's part, so that every character of an answer is learned.
Where that part lies in a conversation is found by rendering: the chat template is applied to the messages
before an assistant's turn (with the generation prompt) and up to its end, and what the second rendering has
more is the turn. That holds only for templates whose renderings extend each other; for others there is an
error, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twintrack.errors import DataError
from twintrack.job.records import Data
from twintrack.training.data.read import Message, Sample

__all__ = ["Encoded", "Encoder"]

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sample, or a piece of one, as tokens."""

    id: str
    where: str
    slice: str
    input_ids: tuple[int, ...]
    loss: tuple[bool, ...]
    """Whether the token of the same index is one to be learned (as a target, by the position before it)."""


class Encoder:
    """Turns samples into tokens by the job's template and loss rule.

    Args:
        data: the job's data record.
        tokenizer: a fast tokenizer of ``transformers`` (it must give character offsets).

    Raises:
        DataError: if the tokenizer lacks what the template needs.
    """

    def __init__(self, data: Data, tokenizer: Any) -> None:
        if not tokenizer.is_fast:
            raise DataError(
                "a tokenizer that gives character offsets (a tokenizer.json)",
                found=type(tokenizer).__name__,
                where="model.source",
                remedy="save the tokenizer with tokenizer.json, or choose another model",
            )
        if data.template == "chat" and not tokenizer.chat_template:
            raise DataError(
                "a tokenizer with a chat template",
                found="none",
                where='data.template = "chat"',
                remedy='choose an instruction-tuned model, or template = "prompt"',
            )
        if data.template == "prompt" and data.prompt_format.count("{prompt}") != 1:
            raise DataError(
                "'{prompt}' once",
                found=repr(data.prompt_format),
                where="data.prompt_format",
                remedy="write {prompt} where the prompt belongs",
            )
        self._data = data
        self._tokenizer = tokenizer

    def __call__(self, sample: Sample) -> Encoded:
        """Tokens of one sample.

        Raises:
            DataError: naming file and line, if the template does not take the sample or nothing carries loss.
        """
        text, spans, special = self._render(sample)
        encoding = self._tokenizer(
            text, add_special_tokens=special, return_offsets_mapping=True, verbose=False
        )
        ids, offsets = list(encoding["input_ids"]), list(encoding["offset_mapping"])
        loss = [end > start and any(start < b and end > a for a, b in spans) for start, end in offsets]
        end_id = self._tokenizer.eos_token_id
        if special and end_id is not None and ids[-1:] != [end_id]:
            ids.append(end_id)
            loss.append(True)
        if self._data.loss_on == "all":
            loss = [True] * len(ids)
        if not any(loss[1:]):
            raise DataError(
                "at least one token to learn",
                found=f"{len(ids)} tokens, all labels masked",
                where=sample.where,
                remedy='remove the sample, or use loss_on = "all"',
            )
        return Encoded(sample.id, sample.where, sample.slice, tuple(ids), tuple(loss))

    def _render(self, sample: Sample) -> tuple[str, Spans, bool]:
        """Text, character spans that carry loss, and whether the tokenizer adds its special tokens to it."""
        if self._data.template == "chat":
            text, spans = self._render_chat(sample)
            return text, spans, False
        if self._data.template == "prompt":
            prompt = self._data.prompt_format.replace("{prompt}", sample.prompt)
            text = prompt + sample.response
            return text, ((len(prompt), len(text)),), True
        return sample.text, ((0, len(sample.text)),), True

    def _render_chat(self, sample: Sample) -> tuple[str, Spans]:
        whole = self._apply(sample, sample.messages, prompt=False)
        if self._data.loss_on == "all":
            return whole, ()
        turns = [i for i, message in enumerate(sample.messages) if message.role == "assistant"]
        if not turns:
            raise DataError(
                "an assistant's message to learn from",
                found=f"roles {', '.join(message.role for message in sample.messages)}",
                where=sample.where,
                remedy='add the answer, or use loss_on = "all"',
            )
        return whole, tuple(self._turn_span(sample, i, whole) for i in turns)

    def _turn_span(self, sample: Sample, turn: int, whole: str) -> tuple[int, int]:
        before = self._apply(sample, sample.messages[:turn], prompt=True)
        upto = self._apply(sample, sample.messages[: turn + 1], prompt=False)
        if not (upto.startswith(before) and whole.startswith(upto)):
            raise DataError(
                "a chat template whose rendering grows by each message",
                found=f"a rendering that changes before or at messages[{turn}]",
                where=sample.where,
                remedy='use loss_on = "all", or a model whose template keeps earlier turns as they are',
            )
        return len(before), self._end_of_turn(len(before), upto)

    def _end_of_turn(self, start: int, upto: str) -> int:
        """End of a turn without the white space that a template puts after its end marker.

        The model stops at the marker and never writes what follows it. Where there is no marker, the white
        space is itself the end of the turn and carries loss.
        """
        stripped = upto.rstrip()
        markers = tuple(self._tokenizer.all_special_tokens)
        return len(stripped) if len(stripped) > start and stripped.endswith(markers) else len(upto)

    def _apply(self, sample: Sample, messages: Sequence[Message], *, prompt: bool) -> str:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            return str(
                self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
            )
        except Exception as error:  # a template is a program of the model's author: it may raise anything
            raise DataError(
                "messages that the chat template takes",
                found=str(error) or type(error).__name__,
                where=sample.where,
                remedy="order the messages as the model's template wants them",
            ) from error
