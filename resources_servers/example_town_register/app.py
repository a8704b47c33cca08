"""A register of towns with three tools: find the right one, or two of them one after the other.

The entries are invented: what the register says of a name follows from the name, so it is always
the same, and the verifier knows what the tools returned.
"""

import re
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rollgym.records import derive_seed
from rollgym.servers import ResourcesServer, Response, TaskRow, Verdict, tool
from rollgym.servers.final_answer import answer_text

# fmt: off
FIRST_NAMES = (
    "Ada", "Bruno", "Clara", "Dario", "Edda", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karla",
    "Leon", "Mira", "Nils", "Olga", "Paul", "Rosa", "Stefan", "Tilda", "Victor",
)
LAST_NAMES = (
    "Adler", "Berg", "Carver", "Dorn", "Engel", "Fisher", "Grant", "Hale", "Iversen", "Jansen",
    "Keller", "Lund", "Marsh", "Novak", "Olsen", "Porter", "Quist", "Reed", "Stone", "Turner",
)
# fmt: on
LONGEST_ANSWER = 400
LONGEST_NAME = 60

Question = Literal["people", "mayor", "phone", "mayor_phone"]


class Population(BaseModel):
    model_config = ConfigDict(frozen=True)

    people: int


class Mayor(BaseModel):
    model_config = ConfigDict(frozen=True)

    mayor: str


class Phone(BaseModel):
    model_config = ConfigDict(frozen=True)

    phone: str


def people_in(town: str) -> int:
    return _random("people", town).randrange(1_000, 10_000)


def mayor_of(town: str) -> str:
    random = _random("mayor", town)
    return f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}"


def phone_of(person: str) -> str:
    return str(_random("phone", person).randrange(1_000, 10_000))


def _random(kind: str, name: str) -> Random:
    return Random(derive_seed(0, kind, _same(name)))  # noqa: S311 - reproducible on purpose


def _same(name: str) -> str:
    """The name without what may be written differently."""
    return " ".join(name.split()).casefold()


class RegisterTask(TaskRow):
    """`question` is what is asked about `subject`: a town, or for `phone` a person."""

    question: Question
    subject: str = Field(min_length=1, max_length=LONGEST_NAME)

    @property
    def needed_calls(self) -> list[tuple[str, str, str]]:
        """The tool, argument and name of each call without which the answer is unknown."""
        match self.question:
            case "people":
                return [("count_people", "town", self.subject)]
            case "mayor":
                return [("find_mayor", "town", self.subject)]
            case "phone":
                return [("find_phone", "person", self.subject)]
            case "mayor_phone":
                mayor = mayor_of(self.subject)
                return [("find_mayor", "town", self.subject), ("find_phone", "person", mayor)]

    @property
    def answer(self) -> str:
        match self.question:
            case "people":
                return str(people_in(self.subject))
            case "mayor":
                return mayor_of(self.subject)
            case "phone":
                return phone_of(self.subject)
            case "mayor_phone":
                return phone_of(mayor_of(self.subject))


class RegisterServer(ResourcesServer[RegisterTask, None]):
    """Looks towns and people up, and checks the calls and the answer."""

    @tool
    async def count_people(self, town: str) -> Population:
        """Number of people in a town.

        Args:
            town: Name of the town.
        """
        return Population(people=people_in(town))

    @tool
    async def find_mayor(self, town: str) -> Mayor:
        """Mayor of a town.

        Args:
            town: Name of the town.
        """
        return Mayor(mayor=mayor_of(town))

    @tool
    async def find_phone(self, person: str) -> Phone:
        """Phone number of a person.

        Args:
            person: First and last name.
        """
        return Phone(phone=phone_of(person))

    async def verify(self, task: RegisterTask, response: Response, state: None) -> Verdict:
        made = set()
        for call in response.function_calls:
            for argument, name in (call.parsed_arguments or {}).items():
                if isinstance(name, str):
                    made.add((call.name, argument, _same(name)))
        needed = {(*call, _same(name)) for *call, name in task.needed_calls}
        share = len(needed & made) / len(needed)
        answered = share == 1 and _only_value(answer_text(response.text), task.answer)
        return Verdict(
            reward=(share + answered) / 2,
            success=answered,
            calls_needed=len(needed),
            calls_made=len(needed & made),
            answered=answered,
        )


def _only_value(text: str, value: str) -> bool:
    """Whether a text says the value, and no other one of its kind. So naming many earns nothing."""
    said = text[-LONGEST_ANSWER:].replace(",", "")
    if not value.isdecimal():
        return value.casefold() in " ".join(said.split()).casefold() and len(text) <= LONGEST_ANSWER
    return set(re.findall(r"\d+", said)) == {value} and len(text) <= LONGEST_ANSWER
