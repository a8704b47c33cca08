#!/usr/bin/env bash
#SBATCH --job-name=web-rollouts
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@300
#SBATCH --output=%x-%j.log
#
# A SLURM job whose nodes share the iterations of web rollouts, one rank on each:
#
#   ROLLGYM=/path/to/rollgym sbatch slurm_ranks.sh save_path=/shared/exp1 data_path=/shared/data
#
# Each rank reads its number and their count from SLURM, and takes its part of the tasks and of
# every limit, such as env_config.server_size. Rank 0 combines the files at the end. The folder of
# save_path is the same on all nodes. Submit it again to continue.

set -euo pipefail

cd "${ROLLGYM:?name the folder of rollgym, which has scripts/rollout.py}"

# A rank that fails leaves the others alone: rank 0 names it, and the same job again runs it. Since
# SLURM 22.05, srun must be told the CPUs of a task again.
exec srun --kill-on-bad-exit=0 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" python scripts/rollout.py --config-name rollout_train "$@"
