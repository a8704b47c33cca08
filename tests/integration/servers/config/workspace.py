"""A working directory with plug-ins and configurations, written by a test."""

from pathlib import Path
from textwrap import dedent

import pytest

from rollgym.servers.config.loading import RunConfig, load_config
from rollgym.servers.config.problems import ConfigError

MODEL = """
policy_model:
  responses_api_models:
    test_model:
      entrypoint: app.py
      base_url: ${policy_base_url}
      api_key: ${policy_api_key}
"""
ENVIRONMENT = """
weather:
  resources_servers:
    test_weather:
      entrypoint: app.py
weather_agent:
  responses_api_agents:
    test_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: weather
      model_server: {type: responses_api_models, name: policy_model}
"""
VARIABLES = "policy_base_url: http://127.0.0.1:9/v1\npolicy_api_key: sk-very-secret-key\n"


class Workspace:
    """A folder to run commands in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    def write_usual(self) -> None:
        """A model, an environment and an agent that fit together."""
        self.write("responses_api_models/test_model/app.py", "")
        self.write("resources_servers/test_weather/app.py", "")
        self.write("responses_api_agents/test_agent/app.py", "")
        self.write("model.yaml", MODEL)
        self.write("weather.yaml", ENVIRONMENT)
        self.write("env.yaml", VARIABLES)

    def load(self, *arguments: str, listening: bool = False) -> RunConfig:
        return load_config(arguments, self.folder, listening=listening)

    def load_usual(self, *arguments: str) -> RunConfig:
        return self.load("+config_paths=[model.yaml,weather.yaml]", *arguments)

    def refusal(self, *arguments: str, listening: bool = False) -> str:
        with pytest.raises(ConfigError) as refused:
            self.load(*arguments, listening=listening)
        return str(refused.value)

    def usual_refusal(self, *arguments: str) -> str:
        return self.refusal("+config_paths=[model.yaml,weather.yaml]", *arguments)
