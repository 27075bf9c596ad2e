"""The job file: one TOML file that declares everything of a fine-tuning job, and its frozen records."""

from twintrack.job.digest import comparable_parts, differing_parts, job_digest, training_digest
from twintrack.job.load import LoadedJob, Origin, load_job
from twintrack.job.records import Job

__all__ = [
    "Job",
    "LoadedJob",
    "Origin",
    "comparable_parts",
    "differing_parts",
    "job_digest",
    "load_job",
    "training_digest",
]
