"""Ask Redis many questions at once: one round trip, or one to each node of a cluster that holds any of the keys."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from redis import Redis
from redis.exceptions import ResponseError

from crawler.frontier.client import Clients, refusal, translated


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
    """Speak with the Redis that the settings name, whichever kind it is."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @property
    def where(self) -> str:
        """Return where Redis is looked for, for people."""
        return self._clients.where

    def server_of(self, key: str) -> Redis:
        """Return the client of the server that holds *key*."""
        return self._clients(key)

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers. Raises FrontierDownError, and FrontierError when one is an error."""
        answers = self.try_to_ask(questions)
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise refusal(answer, self.where)
        return answers

    def try_to_ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers; an error stands in its answer's place. Raises FrontierDownError."""
        by_server: dict[Redis, list[int]] = {}
        for number, question in enumerate(questions):
            by_server.setdefault(self.server_of(question.key), []).append(number)
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
