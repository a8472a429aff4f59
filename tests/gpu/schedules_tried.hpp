// Schedules and shapes that the GPU suite tries beside those of the tuned table.
#pragma once

#include <cstdint>

#include "support/forward_case.hpp"

namespace tandem::testing {

struct Schedule {
  std::int64_t head_dim, head_dim_v;
  const char* fields;  // as TANDEM_FORWARD_SPEC takes them
};

// Every field of the spec, whether or not the table uses it.
inline constexpr Schedule kSchedulesTried[] = {
    {128, 128, "scheduler=single_tile"},
    {128, 128, "scheduler=static_persistent"},
    {128, 128, "cluster=2,scheduler=static_persistent"},
    {128, 128, "cluster=2,scheduler=single_tile,turns=none"},
    {128, 128, "q_in_registers=false,q_buffers=2,output_stage=own"},
    {128, 128, "output_stage=q_buffer"},
    {128, 128, "q_in_registers=false,output_stage=q_buffer"},
    {128, 128, "output_stage=registers"},
    {128, 128, "overlap=false,turns=exp_section"},
    {128, 128, "overlap=false,turns=gemm_issue"},
    {128, 128, "turns=exp_section"},
    {128, 128, "turns=none"},
    {128, 128, "lazy_rescale=false"},
    {128, 128, "block_n=96,stages=3"},
    {128, 128, "block_n=80,stages=1"},
    {128, 128, "block_n=64,stages=4"},
    {64, 64, "consumer_warpgroups=1,ctas_per_sm=2,block_n=96,turns=none,q_in_registers=true,output_stage=own"},
    {64, 64, "consumer_warpgroups=3,ctas_per_sm=1,block_n=112,turns=exp_section,q_in_registers=false,output_stage=own"},
    {64, 64, "consumer_warpgroups=2,ctas_per_sm=1,q_in_registers=true,block_n=192,output_stage=own"},
    {192, 128, "cluster=2,scheduler=static_persistent"},
    {256, 256, "block_n=80,output_stage=q_buffer"},
    {256, 256, "cluster=2,scheduler=static_persistent"},
    {80, 80, "consumer_warpgroups=2,block_n=128,cluster=2,scheduler=single_tile"},
    // Tensors that end inside their tiles.
    {72, 72, "consumer_warpgroups=2,block_n=128,cluster=2,scheduler=static_persistent"},
    {88, 88, "consumer_warpgroups=2,block_n=96,q_in_registers=false,output_stage=q_buffer"},
    {120, 120, "q_in_registers=false,output_stage=q_buffer"},
};

struct ScheduleShape {
  std::int64_t batch, seqlen_q, seqlen_k, heads, heads_kv;
};

inline constexpr ScheduleShape kScheduleShapes[] = {{1, 1, 1, 1, 1},     {2, 129, 300, 4, 2}, {1, 700, 513, 6, 3},
                                                    {3, 255, 127, 2, 1}, {1, 64, 1763, 3, 3}, {3, 200, 200, 24, 8}};

inline ForwardProblem problem_of(const Schedule& schedule, const ScheduleShape& shape, ElementType type, bool causal) {
  return make_problem(type, {.batch = shape.batch,
                             .seqlen_q = shape.seqlen_q,
                             .seqlen_k = shape.seqlen_k,
                             .num_heads = shape.heads,
                             .num_heads_kv = shape.heads_kv,
                             .head_dim = schedule.head_dim,
                             .head_dim_v = schedule.head_dim_v,
                             .causal = causal});
}

}  // namespace tandem::testing
