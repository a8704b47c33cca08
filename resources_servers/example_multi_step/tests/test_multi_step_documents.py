"""Documents are the same wherever they are made, hold their needles, and can be searched."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from resources_servers.example_multi_step.chains import LONGEST_CHAIN, make_chain
from resources_servers.example_multi_step.documents import (
    LONGEST,
    SHORTEST,
    DocumentRecipe,
    Needle,
    SearchableDocument,
    write_document,
)


def recipe(seed: int = 7, length: int = 20_000, facts: int = 3) -> DocumentRecipe:
    chain = make_chain(Random(seed), facts)
    needles = tuple(
        Needle(text=text, value=value, position=index / facts)
        for index, (text, value) in enumerate(chain.facts)
    )
    return DocumentRecipe(seed=seed, length=length, needles=needles)


@given(
    st.integers(0, 10_000),
    st.integers(SHORTEST, 20_000),
    st.lists(st.floats(0, 1), min_size=LONGEST_CHAIN, max_size=LONGEST_CHAIN),
)
def test_a_document_holds_every_needle_once_and_keeps_to_its_length(
    seed: int, length: int, positions: list[float]
) -> None:
    chain = make_chain(Random(seed), LONGEST_CHAIN)
    needles = tuple(
        Needle(text=text, value=value, position=position)
        for (text, value), position in zip(chain.facts, positions, strict=True)
    )
    text = write_document(DocumentRecipe(seed=seed, length=length, needles=needles))
    assert length - 120 < len(text) <= length
    for needle in needles:
        assert text.count(needle.text) == 1


def test_the_same_recipe_makes_the_same_document_and_another_seed_another() -> None:
    assert write_document(recipe()) == write_document(recipe())
    other = recipe().model_copy(update={"seed": 8})
    assert write_document(recipe()) != write_document(other)


def test_needles_lie_where_the_recipe_says() -> None:
    made = recipe(length=50_000)
    text = write_document(made)
    for needle in made.needles:
        assert text.index(needle.text) / len(text) == pytest.approx(needle.position, abs=0.03)


def test_no_other_sentence_names_what_the_needles_name() -> None:
    made = recipe(length=LONGEST, facts=LONGEST_CHAIN)
    text = write_document(made)
    for needle in made.needles:
        text = text.replace(needle.text, "")
    assert not [needle.value for needle in made.needles if needle.value in text]


def test_a_document_has_facts_about_others_that_do_not_contradict_each_other() -> None:
    text = write_document(recipe(length=LONGEST))
    decoys = [sentence for sentence in text.split(". ") if "captain of the" in sentence]
    ships = [sentence.split(" is ")[0] for sentence in decoys]
    assert len(ships) > 5
    assert len(ships) == len(set(ships))


def test_only_the_first_question_of_a_chain_has_a_name_and_each_fact_leads_to_the_next() -> None:
    cases: Iterable[int] = range(1, LONGEST_CHAIN + 1)
    for length in cases:
        chain = make_chain(Random(length), length)
        assert len(chain.questions) == len(chain.facts) == length
        assert " that " not in chain.questions[0]
        for question in chain.questions[1:]:
            assert " that " in question
        for fact, following in zip(chain.facts, chain.facts[1:], strict=False):
            assert fact.value in following.text


def test_a_recipe_that_cannot_be_made_says_why() -> None:
    cases: Iterable[tuple[dict[str, object], str]] = [
        ({"length": LONGEST + 1}, "length"),
        ({"length": SHORTEST - 1}, "length"),
        ({"needles": []}, "needles"),
        ({"needles": [{"text": "x", "value": "y", "position": 0.5}]}, "does not contain its value"),
        ({"needles": [{"text": "x", "value": "x", "position": 1.5}]}, "position"),
        ({"needles": [{"text": "x" * 900, "value": "x", "position": 0}]}, "more than half"),
    ]
    for changes, complaint in cases:
        usable = {
            "seed": 1,
            "length": SHORTEST,
            "needles": [{"text": "x", "value": "x", "position": 0}],
        }
        DocumentRecipe.model_validate(usable)
        with pytest.raises(ValidationError, match=complaint):
            DocumentRecipe.model_validate({**usable, **changes})


def test_a_search_finds_sentences_by_their_rare_words_first() -> None:
    document = SearchableDocument(
        "A cat sat. A cat ran. A cat saw the comet.\nA dog saw a cat of 3.5 kilos."
    )
    found = document.search("cat comet", limit=2)
    assert [passage.text for passage in found] == ["A cat saw the comet.", "A cat sat."]
    assert document.text[found[0].position :].startswith("A cat saw")
    assert document.search("3", limit=9)[0].text == "A dog saw a cat of 3.5 kilos."


def test_a_search_ignores_case_and_words_that_say_nothing() -> None:
    document = SearchableDocument("The mill is old. The Mill of the lake.")
    assert len(document.search("MILL", limit=9)) == 2
    assert [passage.position for passage in document.search("the lake of", limit=9)] == [17]
    assert document.search("the of is", limit=9) == []
    assert document.search("(unbalanced [", limit=9) == []


def test_every_needle_of_a_long_document_is_the_first_thing_a_search_for_it_finds() -> None:
    made = recipe(length=LONGEST, facts=LONGEST_CHAIN)
    document = SearchableDocument(write_document(made))
    for needle in made.needles:
        assert document.search(needle.text, limit=1)[0].text == needle.text
