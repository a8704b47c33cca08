"""All players, and which of them a request is for."""

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.player import Player
from responses_api_models.scripted_model.players.choices import ChoicePlayer
from responses_api_models.scripted_model.players.counter import CounterPlayer
from responses_api_models.scripted_model.players.documents import DocumentPlayer
from responses_api_models.scripted_model.players.mathematics import MathematicsPlayer
from responses_api_models.scripted_model.players.programs import ProgramPlayer
from responses_api_models.scripted_model.players.puzzles import PuzzlePlayer
from responses_api_models.scripted_model.players.stranger import StrangerPlayer
from responses_api_models.scripted_model.players.weather import WeatherPlayer

PLAYERS: tuple[Player, ...] = (
    DocumentPlayer(),
    WeatherPlayer(),
    CounterPlayer(),
    ChoicePlayer(),
    ProgramPlayer(),
    PuzzlePlayer(),
    MathematicsPlayer(),
    StrangerPlayer(),
)


def choose_player(conversation: Conversation) -> Player:
    """The first that knows the task; the last one takes what is left."""
    return next(player for player in PLAYERS if player.knows(conversation))
