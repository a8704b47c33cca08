"""Takes every task that no other player knows, and says so."""

from typing import ClassVar

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Turn


class StrangerPlayer:
    """It never calls a tool: it would not know what to do with the answer."""

    mistakes: ClassVar[tuple[str, ...]] = ("says_nothing",)

    def knows(self, conversation: Conversation) -> bool:
        return True

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        if mistake:
            return Turn("This is none of the tasks I know.", "I do not know.")
        return Turn(
            "This is none of the tasks I know.",
            "I am a script, no language model, and know only the bundled example tasks.",
        )
