#!/usr/bin/env bash
#SBATCH --job-name=rollouts
#SBATCH --array=0-7
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@300
#SBATCH --output=%x-%A_%a.log
#
# A SLURM job array that collects tool rollouts, each task of it an eighth:
#
#   CONFIGS=responses_api_models/openai_model/configs/openai_model.yaml,resources_servers/mcqa/configs/mcqa.yaml \
#       sbatch slurm_array.sh +input_jsonl_fpath=tasks.jsonl +output_jsonl_fpath=results/rollouts.jsonl
#   rollgym merge results/rollouts.jsonl --into results/all.jsonl
#
# The tasks share the folder of the output and nothing else. Submit it again to continue: finished
# rollouts stay. Five minutes before the time is over, running rollouts are finished and the task
# stops. To run one task alone, add +shard=3/8.

set -euo pipefail

configs=${CONFIGS:?name the config files, separated by commas}

# srun, so that the signal before the end of the time reaches the command. Since SLURM 22.05, it must
# be told the CPUs of a task again.
exec srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" ng_collect_rollouts \
    "+config_paths=[$configs]" +shard=slurm "+processes=${SLURM_CPUS_PER_TASK:-1}" "$@"
