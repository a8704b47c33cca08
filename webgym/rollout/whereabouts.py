"""Where a command stands: which iteration it means, which rank it is, where its servers are."""

import os
from urllib.parse import urlsplit

from webgym.iteration.paths import find_iteration, last_iteration
from webgym.iteration.ranks import Rank, RankSettings, find_rank
from webgym.rollout.embedded import Embedded
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.mistakes import SettingsError
from webgym.rollout.settings import RolloutSettings


def require_baseline(settings: RolloutSettings) -> None:
    if "scripted" in settings.embedded and settings.model.model_type != "baseline":
        raise SettingsError(
            "embedded: the policy `scripted` is not a model and reads pages as text: give "
            "model_config.model_type=baseline"
        )


def own_iteration(settings: RolloutSettings) -> int:
    """Raises StorageError."""
    if settings.iteration is not None:
        return settings.iteration
    split = settings.env_config.split
    if settings.runs_again:
        return last_iteration(settings.save_path, split) or 0
    return find_iteration(settings.save_path, split)


def own_rank(settings: EnvironmentSettings) -> Rank:
    """Raises RankError, SettingsError."""
    rank = find_rank(
        RankSettings(
            multinode_rank=settings.multinode_rank,
            multinode_total_workers=settings.multinode_total_workers,
            rank_weights=settings.rank_weights,
            rank_load_weight=settings.rank_load_weight,
            total_load_weight=settings.total_load_weight,
        ),
        os.environ,
    )
    suffix = settings.multinode_rank_suffix
    if suffix is not None and suffix != rank.suffix:
        raise SettingsError(
            f"env_config.multinode_rank_suffix={suffix!r}: the files of rank {rank.index} of "
            f"{rank.count} end with {rank.suffix!r}, by which the master finds them; leave it out"
        )
    return rank


def placed(settings: EnvironmentSettings, servers: Embedded) -> EnvironmentSettings:
    """The settings with the addresses of the servers that the run has itself."""
    found: dict[str, object] = {}
    if servers.browser_url is not None:
        parts = urlsplit(servers.browser_url)
        found |= {"host_ip": parts.hostname, "master_port": parts.port}
    if servers.sites_url is not None:
        found["sites_url"] = servers.sites_url
    if servers.model_url is not None:
        found["vllm_server_url"] = servers.model_url
    return settings.model_copy(update=found)
