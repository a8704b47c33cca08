"""A client of browser servers as others in this field have written it, in plain standard Python.

It keeps the object that `POST /get` answered and sends all of it back: as the query of `GET`
routes and `/reset`, and merged with the command in the body of `/execute`. It reads the page in
words from `get_screenshot_info`, by the field's names for regions.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlencode, urlsplit

PATIENCE = 60.0
Json = dict[str, Any]


class MasterCounterpart:
    """One browser server. Every method returns the decoded answer, or raises RuntimeError."""

    def __init__(self, url: str, api_key: str = "") -> None:
        self._address = urlsplit(url)
        self._headers = {"x-api-key": api_key} if api_key else {}

    def get_instance(self, lifetime_mins: int = 120) -> Json:
        return self._json("POST", "/get", {"lifetime_mins": lifetime_mins})

    def info(self) -> Json:
        return self._json("GET", "/info")

    def probe(self, instance: Json) -> Json:
        return self._json("GET", "/probe", instance)

    def metadata(self, instance: Json) -> Json:
        return self._json("GET", "/metadata", instance)

    def reset_instance(self, instance: Json) -> Json:
        return self._json("POST", "/reset", instance)

    def screenshot(self, instance: Json, interaction_mode: str = "set_of_marks") -> bytes:
        query = {**instance, "interaction_mode": interaction_mode}
        return self._send("GET", "/screenshot", query)

    def execute(self, instance: Json, command: Json) -> Json:
        return self._json("POST", "/execute", body={**command, **instance})

    def execute_by_query(self, instance: Json, command: Json) -> Json:
        """As its client for single nodes does: the session in the query, the command alone."""
        return self._json("POST", "/execute", {"instance_id": instance["instance_id"]}, command)

    def accessibility_text(self, instance: Json) -> str:
        """A line for each element in view."""
        info = self.execute(instance, {"get_screenshot_info": {}})
        lines = []
        for shown in info.get("visible_rects", []):
            number = info.get("id_mapping", {}).get(str(shown), str(shown))
            region = info.get("interactive_regions", {}).get(str(number), {})
            text, tag = region.get("aria_name", ""), region.get("tag_name", "")
            lines.append(f"id: {shown}, text: {text}, tag: {tag}")
        return "\n".join(lines)

    def _json(
        self, method: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> Json:
        answer: Json = json.loads(self._send(method, path, query, body))
        return answer

    def _send(
        self, method: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> bytes:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = dict(self._headers)
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=PATIENCE
        )
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path} answered {response.status}: {answer.decode()}")
        return answer
