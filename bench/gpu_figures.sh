#!/bin/bash
# The figures of hybrids, GRPO, images and serving on one GPU, each with its peer in the same run.
# usage: gpu_figures.sh [hybrid | grpo | vision | serve]...      (without arguments: all)
# Expects build/cuda (cmake --preset cuda) with easydel_cli and vision_bench.
set -u
cd "$(dirname "$0")/.."
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
measure() {  # SECONDS NAME COMMAND...
  local limit=$1 name=$2
  shift 2
  timeout "$limit" "$@" 2>&1 | grep -v "Warning\|warning"
  echo "== $name: rc ${PIPESTATUS[0]}, $SECONDS s"
}
hybrid() { measure 90 hybrid python3 bench/hybrid_bench.py; }
grpo() {
  measure 75 "grpo 0.5 B" python3 bench/grpo_bench.py
  measure 100 "grpo 1.5 B" python3 bench/grpo_bench.py --config bench/configs/qwen2.5-1.5b.json
}
vision() {
  measure 60 "ViT-L/14" python3 bench/vision_bench.py vit --attention sdpa eager
  measure 75 "Qwen2.5-VL-3B" python3 bench/vision_bench.py vl --steps 3
}
serve() { measure 100 serve python3 bench/serve_gpu_bench.py; }
[ $# = 0 ] && set -- hybrid grpo vision serve
for what in "$@"; do "$what"; done
