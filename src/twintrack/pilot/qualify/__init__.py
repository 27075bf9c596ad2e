"""What a job will need, before anything is reserved: parameters, programs, memory, checkpoints, verdict per track.

``qualify`` answers from the configuration alone. Light to import: torch is loaded only when a configuration is read.
"""

from twintrack.pilot.qualify.qualification import qualify
from twintrack.pilot.qualify.records import Qualification, Verdict

__all__ = ["Qualification", "Verdict", "qualify"]
