"""`ng_run`: start the servers that config files describe, and keep them running until Ctrl-C."""

from collections.abc import Sequence
from typing import NoReturn

from rollgym.cli.process import run_override_command

HELP = """
usage: ng_run "+config_paths=[FILE,FILE,…]" [+OPTION=VALUE …]

Start the servers that the config files describe, print their URLs, and keep
them running until Ctrl-C:

  ng_run "+config_paths=[responses_api_models/openai_model/configs/openai_model.yaml,\\
resources_servers/example_multi_step/configs/example_multi_step.yaml]"

Files are looked for in the working directory, then among those that come with
rollgym. env.yaml in the working directory sets the variables that they use,
such as policy_base_url, policy_api_key and policy_model_name.

options:
  +config_paths=[…]        the config files, merged in this order
  +NAME=VALUE              a variable that a config file uses as ${NAME}
  +SERVER.KIND.IMPLEMENTATION.SETTING=VALUE
                           any setting of a server; `processes: N` and
                           `isolated: true` give it processes of its own,
                           `port` and `host` an address, and `restarts` (3)
                           limits how often a process is started again
  +head_server.port=11000  the port at which ng_status and
                           ng_collect_rollouts find the servers
                           (+head_server.host=127.0.0.1)
  +server_token=TOKEN      the token that servers require of every request if
                           their host is not loopback; better set in env.yaml
  +log_level=warning       debug, info, warning, error or critical
  +log_file=FILE           the file for logs, as lines of JSON (default:
                           standard error)
  +launcher=ray            run each server as an actor of a Ray cluster, with its
                           `ray_resources`, such as {CPU: 2, GPU: 1}
  +ray_address=ADDRESS     address of an existing Ray cluster (default: start a
                           local one and end it)
  +start_timeout=60        seconds until every server must be ready
  +dry_run=true            check everything, and start nothing

exit status: 0 stopped by Ctrl-C or SIGTERM when all servers were ready, 5 before
that, 2 the command was used wrongly, 6 rejected, or a server did not start, 1 a
server died too often
"""


def help_text() -> str:
    return HELP


def run(arguments: Sequence[str]) -> int:
    from rollgym.cli.serving import serve  # noqa: PLC0415 - --help does not need the servers

    return serve(arguments)


def entry() -> NoReturn:
    run_override_command(help_text, run)


if __name__ == "__main__":
    entry()
