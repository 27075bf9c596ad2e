"""Write the demo's data: English conversations of the ChatterBot corpus as chat samples with slices.

    python examples/pilot/prepare.py [FOLDER]

FOLDER is ``data`` beside this file unless given. It receives ``train.jsonl``, ``evaluation.jsonl`` and
``ATTRIBUTION.md``. The same package gives the same bytes. Its YAML files are read; none of its code runs.

The rules, in this order:

1. Every file of the corpus is a slice, but for those in ``LEFT_OUT``.
2. In ``DIALOGUES`` an entry is a conversation whose turns alternate, user first; an odd last turn is dropped. In
   the other files an entry is a question and one or more answers to it, each a sample.
3. A sample is dropped when it says a word of ``UNWELCOME``; when its answer is the question again or, in the
   files of questions, another question of the corpus (which there means "see there"); when it is broken:
   ``BROKEN_CODE``, ``CUT_ANSWER`` or an entry spelled out letter by letter.
4. Of samples that differ in nothing but case and space, the first stays.
5. Of each slice with at least ``SMALLEST_HELD`` samples, whole prompts are held out for evaluation until there
   are ``HELD`` samples, those with the lowest SHA-256 first; prompts with more answers than that are passed
   over. So no prompt is in both files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from twintrack.errors import DataError, UserError
from twintrack.storage import LocalFileSystem, write_bytes_atomic

PACKAGE, DISTRIBUTION = "chatterbot_corpus", "chatterbot-corpus"
DIALOGUES = frozenset({"conversations", "health", "sports"})
LEFT_OUT = frozenset(
    {
        "gossip",  # hearsay about people who do not exist
        "politics",  # opinions
        "psychology",  # insults, and answers that agree with them
    }
)
UNWELCOME = re.compile(
    r"\b(bend over|mate|die|kill|killed|shot dead|suicide|murderer|pleasure bot|boyfriend|balls|sinsemillia|"
    r"eskimos|dyslexic|nun|testicles|fascist|hitler|the south was right)\b",
    re.IGNORECASE,
)
BROKEN_CODE = re.compile(r"(=|#|\breturn n)[ \t]*\n")
"""The corpus lost what stood in square brackets on some lines of its code."""
CUT_ANSWER = "it"
"""All that is left of two answers on distances."""
SMALLEST_HELD = 10
HELD = 2


class Sample(NamedTuple):
    """One conversation; turns alternate, user first."""

    slice: str
    turns: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What is left when case and space do not count."""
        return tuple(" ".join(turn.casefold().split()) for turn in self.turns)


def corpus_files() -> list[Path]:
    """The English YAML files of the installed corpus, in order."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(Path(folders[0], "data", "english").glob("*.yml")) if folders else []
    if not files:
        raise DataError(
            f"the Python package {DISTRIBUTION}",
            found="not installed",
            where="examples/pilot/prepare.py",
            remedy=f"pip install --no-deps {DISTRIBUTION}==1.3.3",
        )
    return files


def read_samples(path: Path) -> Iterator[Sample]:
    """Samples of one file, by rules 1 and 2."""
    import yaml

    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in content["conversations"]:
        lines = [str(line).strip() for line in entry]
        if len(lines) > 2 and sum(len(line) <= 1 for line in lines) > len(lines) / 2:
            continue  # spelled out letter by letter
        if path.stem in DIALOGUES:
            yield Sample(path.stem, tuple(lines[: len(lines) // 2 * 2]))
        else:
            for answer in lines[1:]:
                yield Sample(path.stem, (lines[0], answer))


def is_good(sample: Sample, prompts: frozenset[str]) -> bool:
    """Rule 3; ``prompts`` are those of the files of questions."""
    text = "\n".join(sample.turns) + "\n"
    if not all(sample.turns) or UNWELCOME.search(text) or BROKEN_CODE.search(text):
        return False
    prompt, answer = sample.key[0], sample.key[1]
    elsewhere = sample.slice not in DIALOGUES and answer.rstrip(".?") in prompts
    return answer not in {prompt, CUT_ANSWER} and not elsewhere


def without_repeats(samples: list[Sample]) -> list[Sample]:
    """Rule 4."""
    return list({sample.key: sample for sample in reversed(samples)}.values())[::-1]


def split(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Rule 5: samples to train on and samples held out."""
    by_slice: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_slice[sample.slice].append(sample)
    train, held = [], []
    for members in by_slice.values():
        by_prompt: dict[str, list[Sample]] = defaultdict(list)
        for sample in members:
            by_prompt[sample.key[0]].append(sample)
        taken: set[str] = set()
        left = HELD if len(members) >= SMALLEST_HELD else 0
        for prompt in sorted(by_prompt, key=lambda text: hashlib.sha256(text.encode()).digest()):
            if len(by_prompt[prompt]) <= left:
                left -= len(by_prompt[prompt])
                taken.add(prompt)
        held += [sample for sample in members if sample.key[0] in taken]
        train += [sample for sample in members if sample.key[0] not in taken]
    return train, held


def to_jsonl(samples: list[Sample]) -> bytes:
    """One chat record per line."""
    roles = ("user", "assistant")
    records = [
        {
            "messages": [
                {"role": roles[index % 2], "content": turn} for index, turn in enumerate(sample.turns)
            ],
            "slice": sample.slice,
        }
        for sample in samples
    ]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def attribution() -> bytes:
    """Whose text it is, from the package's own metadata, and under which terms."""
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    links = [link.split(", ", 1)[1] for link in metadata.get_all("Project-URL") or []]
    licences = [c for c in metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    return (
        f"# Attribution\n\n`train.jsonl` and `evaluation.jsonl` were made from {metadata['Name']} "
        f"{metadata['Version']} by {metadata['Author']} and contributors: {', '.join(links)}.\n\n"
        f"Licence of the corpus, as its package states it: {', '.join(licences)} (3-clause BSD, "
        "copyright 2017 Gunther Cox; the text is in license.md of its repository).\n\n"
        "Samples were selected, cut into turns and de-duplicated by the rules at the head of `prepare.py`; "
        "their wording was not changed. Neither the corpus nor its contributors endorse what is made with "
        "it.\n"
    ).encode()


def main(arguments: list[str]) -> int:
    """Write the three files; returns the exit code."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent / "data"
    fs = LocalFileSystem()
    try:
        files = [path for path in corpus_files() if path.stem not in LEFT_OUT]
        read = [sample for path in files for sample in read_samples(path)]
        prompts = frozenset(s.key[0].rstrip(".?") for s in read if s.slice not in {*DIALOGUES, "greetings"})
        good = without_repeats([sample for sample in read if is_good(sample, prompts)])
        train, held = split(good)
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(fs, folder / "train.jsonl", to_jsonl(train))
        write_bytes_atomic(fs, folder / "evaluation.jsonl", to_jsonl(held))
        write_bytes_atomic(fs, folder / "ATTRIBUTION.md", attribution())
    except (UserError, OSError) as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 2
    print(
        f"{folder}: {len(train)} samples to train on, {len(held)} to evaluate, "
        f"of {len(read)} read ({len(read) - len(good)} dropped or repeated)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
