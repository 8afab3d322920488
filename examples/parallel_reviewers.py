"""Three reviewers at once, each with an answer of one type.

python examples/parallel_reviewers.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from pydantic import BaseModel

from smithers import AgentFailed, create_async_smithers_db


class Verdict(BaseModel):
    """What a reviewer answers."""

    approved: bool
    issues: list[str]


async def main(path: str) -> None:
    async with create_async_smithers_db(path) as db, db.run("Reviewers", __file__) as run:

        async def review(subject: str) -> Verdict:
            prompt = f"Review the last commit for {subject}."
            try:
                result = await run.claude(prompt, key=subject, output_type=Verdict, timeout=600)
            except AgentFailed as failed:
                return Verdict(approved=False, issues=[f"not reviewed: {failed.reason}"])
            verdict: Verdict = result.structured
            return verdict

        subjects = ("security", "performance", "style")
        async with run.phase("review"):
            verdicts = await run.parallel(*map(review, subjects))

        for subject, verdict in zip(subjects, verdicts, strict=True):
            print(f"{subject}: {'approved' if verdict.approved else '; '.join(verdict.issues)}")
        execution = await db.execution.get(run.id)
        assert execution is not None
        print(f"{execution.total_agents} agents, {execution.total_tokens_used} tokens")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
