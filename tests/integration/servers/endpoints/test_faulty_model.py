"""The faulty model itself, called by a client that is not ours."""

import json
import urllib.error
import urllib.request

import pytest

from tests.faulty_model import FaultyModel, error, in_background, reset


def test_it_plays_its_script_to_any_client_and_then_answers_well() -> None:
    with in_background(FaultyModel([error(418, "Teapot"), reset()])) as model:
        url = f"{model.base_url}/responses"
        with pytest.raises(urllib.error.HTTPError, match="418") as refused:
            urllib.request.urlopen(url, b"{}", timeout=10)
        assert json.load(refused.value) == {"error": {"message": "Teapot"}}
        refused.value.close()
        with pytest.raises(OSError, match="reset|closed"):
            urllib.request.urlopen(url, b"{}", timeout=10)
        with urllib.request.urlopen(url, b"{}", timeout=10) as answer:
            assert json.load(answer)["status"] == "completed"
        assert len(model.requests) == 3
