"""Ask Redis many questions at once, by commands or scripts: one round trip, or one to each node of a cluster."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from redis import Redis
from redis.exceptions import NoScriptError, ResponseError

from crawler.frontier.calls import Call
from crawler.frontier.client import Clients, refusal, translated
from crawler.frontier.verbs import verb


class Question(NamedTuple):
    """Hold a command that only reads, and the key that says which server to ask."""

    key: str
    command: Sequence[str | int]

    @classmethod
    def of(cls, command: str, key: str, *arguments: str | int) -> Self:
        """Return the question that puts *command* (one word or two) to *key*."""
        return cls(key, (*command.split(), key, *arguments))


def pairs(answer: Sequence[Any]) -> Iterable[tuple[bytes, bytes]]:
    """Return the pairs of an answer, which the older protocol gives flat."""
    return answer if answer and isinstance(answer[0], list) else zip(answer[::2], answer[1::2], strict=True)


class Line:
    """Speak with the Redis that the settings name, whichever kind it is.

    Scripts must only read: they are called as read-only ones where the server has such (Redis 7), so that its account
    need not be one that may write.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._read_only = "_RO"

    @property
    def where(self) -> str:
        """Return where Redis is looked for, for people."""
        return self._clients.where

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers. Raises FrontierDownError, and FrontierError when one is an error."""
        return self._all_answered(self.try_to_ask(questions))

    def try_to_ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers; an error stands in its answer's place. Raises FrontierDownError."""
        by_server: dict[Redis, list[int]] = {}
        for number, question in enumerate(questions):
            by_server.setdefault(self._clients(question.key), []).append(number)
        answers: list[Any] = [None] * len(questions)
        for server, numbers in by_server.items():
            pipeline = server.pipeline(transaction=False)
            for number in numbers:
                pipeline.execute_command(*questions[number].command)  # type: ignore[no-untyped-call] # so it is there
            with translated(self.where):
                replies = pipeline.execute(raise_on_error=False)
            for number, reply in zip(numbers, replies, strict=True):
                answers[number] = reply
        return answers

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return what scripts answer. Raises FrontierDownError, and FrontierError when one is an error."""
        return self._all_answered(self.try_to_run(calls))

    def try_to_run(self, calls: Sequence[Call]) -> list[Any]:
        """Return what scripts answer; an error stands in its answer's place. Raises FrontierDownError."""
        by_sha = [self._script("EVALSHA", verb(call.name).sha, call) for call in calls]
        answers = self.try_to_ask(by_sha)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            # EVAL makes a script known as LOAD does, and needs no further right. One call on each server will do.
            some = {(self._clients(call.keys[0]), call.name): call for call in calls}.values()
            self.try_to_ask([self._script("EVAL", verb(call.name).text, call) for call in some])
            return self.try_to_ask(by_sha)
        if self._read_only and any(_is_unknown_command(answer) for answer in answers):
            self._read_only = ""
            return self.try_to_run(calls)
        return answers

    def _script(self, command: str, script: str, call: Call) -> Question:
        return Question(call.keys[0], [command + self._read_only, script, len(call.keys), *call.keys, *call.args])

    def _all_answered(self, answers: list[Any]) -> list[Any]:
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise refusal(answer, self.where)
        return answers


def _is_unknown_command(answer: object) -> bool:
    return isinstance(answer, ResponseError) and "unknown command" in str(answer).lower()
