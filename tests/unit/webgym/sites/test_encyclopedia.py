import re
from pathlib import Path

import pytest

from webgym.sites.encyclopedia import article as article_module
from webgym.sites.encyclopedia.article import (
    ARTICLES,
    CATEGORIES,
    ArticleTable,
    BulletList,
    Heading,
    Paragraph,
    find,
    parse,
    plain,
    plain_text,
    search,
)
from webgym.sites.encyclopedia.pages import article_page, inline, missing_page, url_of

STATIC = Path(article_module.__file__).parent / "static"
SOURCE = """\
title: Anchor
also: Hook, Iron
categories: Ships
fact: Weight = 2 t
drawing: ferry
---
An **anchor** of //iron//, see [[Port Selwick|the port]].[^1]
It holds.

== Kinds ==

- One
- [[Merrow]]

| Kind | Place |
| Bower | [[Merrow River|a river]] |

[1] A <note>.
"""


def test_an_article_is_read_block_by_block() -> None:
    article = parse(SOURCE)
    assert (article.title, article.also, article.categories) == (
        "Anchor",
        ("Hook", "Iron"),
        ("Ships",),
    )
    assert article.facts == (("Weight", "2 t"),)
    assert article.notes == ("A <note>.",)
    kinds = [type(block) for block in article.blocks]
    assert kinds == [Paragraph, Heading, BulletList, ArticleTable]
    assert article.blocks[3] == ArticleTable(
        ("Kind", "Place"), (("Bower", "[[Merrow River|a river]]"),)
    )


def test_marks_become_links_and_all_else_is_text() -> None:
    shown = inline("**a** //b// [[Merrow]] [[Nowhere|<x>]] <script>[^2]")
    assert "<b>a</b> <i>b</i>" in shown
    assert '<a href="/encyclopedia/wiki/Merrow">Merrow</a>' in shown
    assert '<a class="missing" href="/encyclopedia/wiki/Nowhere">&lt;x&gt;</a>' in shown
    assert "&lt;script&gt;" in shown
    assert "[2]" in shown


def test_a_text_can_be_had_without_its_marks() -> None:
    assert plain("An **anchor**, [[a|b]] and [[c]].[^1]") == "An anchor, b and c."
    assert "Bower a river" in plain_text(parse(SOURCE))


def test_a_malformed_article_is_rejected() -> None:
    for source in ["title\n---\nx", "title: A\n---\n| a | b |\n| c |"]:
        with pytest.raises(ValueError, match="not a `name: value` line|differ"):
            parse(source)


def test_the_links_of_an_article_have_targets() -> None:
    for article in ARTICLES:
        page = article_page(article, article.title)
        assert 'class="missing"' not in page
        assert page.count('class="ref"') == len(article.notes)
        for target in re.findall(r'href="#([^"]+)"', page):
            assert f'id="{target}"' in page, target
        if article.drawing:
            assert (STATIC / f"scene-{article.drawing}.svg").is_file()


def test_there_are_enough_articles_and_they_are_linked() -> None:
    assert len(ARTICLES) >= 25
    assert sum(article.is_disambiguation for article in ARTICLES) == 1
    linked = {
        target
        for article in ARTICLES
        for target in re.findall(r'href="(/encyclopedia/wiki/[^"]+)"', article_page(article, ""))
    }
    assert {url_of(article.title) for article in ARTICLES} <= linked
    assert set(CATEGORIES) >= {"Geography", "History", "People", "Ships"}


def test_an_article_is_found_by_each_of_its_titles() -> None:
    for title in ("Port Selwick", "port_selwick", "Selwick"):
        found = find(title)
        assert found is not None
        assert found.title == "Port Selwick"
    assert find("Atlantis") is None


def test_titles_come_first_and_all_words_must_be_there() -> None:
    results = search("bridge")
    assert results[0].article.title == "Arkwell Bridge"
    assert "bridge" in results[0].snippet.casefold()
    assert [each.article.title for each in search("scorched planks")] == ["Great Fire of Selwick"]
    assert search("bridge of zirconium") == []
    assert search("((") == []


def test_a_missing_title_is_shown_as_text() -> None:
    page = missing_page('<img src=x onerror=alert(1)>&"')
    assert "<img src=x" not in page
    assert "q=%3Cimg%20src%3Dx" in page
