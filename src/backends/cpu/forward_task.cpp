#include "backends/cpu/forward_task.hpp"

#include <cmath>

namespace tandem::cpu {

ForwardTask make_forward_task(const ForwardProblem& problem, const ForwardCall& call, std::int64_t rows_per_item) {
  ForwardTask task;
  task.problem = problem;
  task.call = call;
  if (problem.causal) task.window.right = 0;

  task.group = problem.num_heads_kv == 0 ? 1 : problem.num_heads / problem.num_heads_kv;
  task.rows = problem.seqlen_q * task.group;
  task.rows_per_item = rows_per_item;
  task.items_per_head = (task.rows + rows_per_item - 1) / rows_per_item;
  task.items = problem.batch * problem.num_heads_kv * task.items_per_head;

  const float scale = call.softmax_scale;
  if (scale >= 1.0f) {
    task.score_scale = scale;
  } else if (scale == 0.0f) {
    task.query_scale = 0.0f;  // scores are 0 even where Q times K alone would overflow
  } else {
    int exponent = 0;
    task.score_scale = 2.0f * std::frexp(scale, &exponent);  // [1, 2)
    task.query_scale = std::ldexp(1.0f, exponent - 1);
  }
  return task;
}

}  // namespace tandem::cpu
