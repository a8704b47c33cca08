"""What the script reads on a page."""

from tests.e2e.page_script.screen import Play, Screen


def test_text_includes_shadow_roots_slots_and_frames_in_their_places(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("shadow.html")
        lines = (await screen.script.text(100, screen.deadline)).splitlines()
        assert lines[:3] == ["Light heading", "Slotted title", "apples Buy apples Small"]
        assert lines.index("End of the list") < lines.index("After the list")
        await screen.open("frames.html")
        text = await screen.script.text(100, screen.deadline)
        assert text.startswith("Outside\nInside\nNested\n")
        assert "Below" in text
        await screen.open("dense.html")
        assert len((await screen.script.text(7, screen.deadline)).splitlines()) == 7

    play(scene)


def test_metadata_is_what_the_page_says_about_itself(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("dense.html")
        metadata = await screen.script.metadata(screen.deadline)
        assert metadata["title"] == "Harbour Books: all departments"
        assert str(metadata["url"]).endswith("dense.html")
        assert metadata["language"] == "en"
        assert metadata["description"] == "Second-hand and new books, posted the same day."
        assert metadata["canonical"] == "https://harbour.example/all"
        assert metadata["json_ld"] == ['{"@type": "BookStore", "name": "Harbour Books"}']
        assert {"level": 1, "text": "All departments"} in list(metadata["headings"])  # type: ignore[call-overload]

    play(scene)
