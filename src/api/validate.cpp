#include "api/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>

namespace tandem::api {
namespace {

constexpr const char* kAxes[4] = {"batch", "seqlen", "heads", "dim"};

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

bool is_empty(const Tensor& tensor) { return tensor.shape[0] == 0 || tensor.shape[1] == 0 || tensor.shape[2] == 0 || tensor.shape[3] == 0; }

constexpr std::int64_t kMaxReach = std::numeric_limits<std::int64_t>::max() / 8;

// Saturated, for extents, which must not wrap; of numbers that are not negative.
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}
std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

Status read_tensor(const char* name, const tandem_tensor& source, Addresses addresses, Tensor& tensor) {
  if (source.dtype != TANDEM_FP16 && source.dtype != TANDEM_BF16 && source.dtype != TANDEM_FP32)
    return invalid("{}.dtype is {}; it must be TANDEM_FP16 (1), TANDEM_BF16 (2) or TANDEM_FP32 (3)", name, source.dtype);
  if (source.reserved != 0) return invalid("{}.reserved is {}; it must be 0", name, source.reserved);
  tensor.data = source.data;
  tensor.type = static_cast<ElementType>(source.dtype);
  std::int64_t reach = 1;  // elements from the first to the last
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (source.shape[axis] < 0) return invalid("{}.shape[{}] ({}) is {}; it must be 0 or more", name, axis, kAxes[axis], source.shape[axis]);
    tensor.shape[axis] = source.shape[axis];
    tensor.stride[axis] = source.stride[axis];
    if (source.shape[axis] <= 1) continue;
    if (source.stride[axis] < 0)
      return invalid("{}.stride[{}] ({}) is {}; it must be 0 or more: reverse the tensor before the call", name, axis, kAxes[axis], source.stride[axis]);
    reach = add(reach, multiply(source.shape[axis] - 1, source.stride[axis]));
    if (reach > kMaxReach)
      return invalid("{} reaches past 2^60 elements along {}; shape {} with stride {} is too large", name, kAxes[axis], source.shape[axis],
                     source.stride[axis]);
  }
  if (tensor.shape[3] == 0) return invalid("{}.shape[3] (dim) is 0; it must be at least 1", name);
  if (addresses == Addresses::required && tensor.data == nullptr && !is_empty(tensor))
    return invalid("{}.data is NULL; a tensor that is not empty needs an address", name);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(size_of(tensor.type)) != 0)
    return invalid("{}.data is {}; it must be a multiple of the element size, {} bytes", name, tensor.data, size_of(tensor.type));
  return {};
}

Status same_type(const char* name, const Tensor& tensor, const Tensor& q) {
  if (tensor.type == q.type) return {};
  return invalid("{} has dtype {} and q has {}; they must be the same", name, name_of(tensor.type), name_of(q.type));
}

Status same_extent(const char* name, const Tensor& tensor, std::size_t axis, const char* other, std::int64_t wanted) {
  if (tensor.shape[axis] == wanted) return {};
  return invalid("{}.shape[{}] ({}) is {}; it must be that of {}, {}", name, axis, kAxes[axis], tensor.shape[axis], other, wanted);
}

// One axis of memory that is written.
struct Axis {
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::string_view what;  // "out.stride[1] (seqlen)"
};

// Every element that is written needs memory of its own: each axis must step over all that those of smaller stride reach, and over `reach`
// elements where nothing else does.
template <std::size_t kCount>
Status distinct_elements(std::string_view name, std::int64_t reach, std::array<Axis, kCount> axes) {
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  for (const Axis& axis : axes) {
    if (axis.length <= 1) continue;
    if (axis.stride < reach)
      return invalid("{} is {}; it must be at least {}: every element of {} needs memory of its own", axis.what, axis.stride, reach, name);
    reach = add(reach, multiply(axis.length - 1, axis.stride));
    if (reach > kMaxReach) return invalid("{} is {}; {} of them must not reach past 2^60 elements of {}", axis.what, axis.stride, axis.length - 1, name);
  }
  return {};
}

Status distinct_output(const Tensor& out) {
  static constexpr std::string_view kNames[4] = {"out.stride[0] (batch)", "out.stride[1] (seqlen)", "out.stride[2] (heads)", "out.stride[3] (dim)"};
  if (is_empty(out)) return {};
  std::array<Axis, 4> axes;
  for (std::size_t i = 0; i < 4; ++i) axes[i] = {out.shape[i], out.stride[i], kNames[i]};
  return distinct_elements("out", 1, axes);
}

// Checks in order, of which those after the first failure are not made.
class Checks {
 public:
  template <class Check>
  Checks& then(Check&& check) {
    if (status_.ok()) status_ = check();
    return *this;
  }
  Status result() && { return std::move(status_); }

 private:
  Status status_;
};

Status read_lse(const tandem_forward_args& args, const ForwardProblem& problem, ForwardCall& call) {
  call.lse = args.lse;
  call.lse_stride_batch = args.lse_stride_batch;
  call.lse_stride_head = args.lse_stride_head;
  if (args.lse == nullptr) return {};
  if (reinterpret_cast<std::uintptr_t>(args.lse) % alignof(float) != 0)
    return invalid("lse is {}; it must be a multiple of 4 bytes", static_cast<const void*>(args.lse));
  if (args.lse_stride_batch == 0 && args.lse_stride_head == 0) {
    call.lse_stride_head = problem.seqlen_q;
    call.lse_stride_batch = multiply(problem.num_heads, problem.seqlen_q);
    return {};
  }
  if (problem.batch_of_q() == 0 || problem.num_heads == 0) return {};
  return distinct_elements("lse", problem.seqlen_q,
                           std::array<Axis, 2>{Axis{problem.batch_of_q(), args.lse_stride_batch, "lse_stride_batch"},
                                               Axis{problem.num_heads, args.lse_stride_head, "lse_stride_head"}});
}

// A flag of the C interface.
Status is_flag(const char* name, std::int32_t value) {
  if (value == 0 || value == 1) return {};
  return invalid("{} is {}; it must be 0 or 1", name, value);
}

Status read_masks(const tandem_forward_args& args, ForwardProblem& problem, ForwardCall& call) {
  if (Status status = is_flag("causal", args.causal); !status.ok()) return status;
  if (Status status = is_flag("window", args.window); !status.ok()) return status;
  if (args.window == 0 && (args.window_left != 0 || args.window_right != 0))
    return invalid("window is 0 and window_left is {}, window_right {}; set window to 1 to have them, or both to 0", args.window_left, args.window_right);
  if (args.attention_chunk < 0) return invalid("attention_chunk is {}; it must be 0 (none) or the positions of a chunk", args.attention_chunk);
  if (!std::isfinite(args.softcap) || args.softcap < 0)
    return invalid("softcap is {}; it must be 0 (none) or the finite bound that scores approach", args.softcap);
  if (reinterpret_cast<std::uintptr_t>(args.sinks) % alignof(float) != 0)
    return invalid("sinks is {}; it must be a multiple of 4 bytes", static_cast<const void*>(args.sinks));
  problem.causal = args.causal == 1;
  if (args.window == 1) {
    // A side that reaches past every key is open, and a right side of 0 is causal: such masks need no kernel of their own.
    const std::int64_t all = add(problem.seqlen_q, problem.seqlen_k);
    problem.window_left = args.window_left < 0 || args.window_left >= all ? -1 : args.window_left;
    problem.window_right = args.window_right < 0 || args.window_right >= all ? -1 : args.window_right;
    problem.causal = problem.causal || problem.window_right == 0;
  }
  if (problem.causal) problem.window_right = -1;
  problem.attention_chunk = std::min<std::int64_t>(args.attention_chunk, std::numeric_limits<std::int32_t>::max());
  problem.softcap = args.softcap > 0;
  problem.sinks = args.sinks != nullptr;
  call.softcap = args.softcap;
  call.sinks = args.sinks;
  return {};
}

Status read_lengths(const tandem_forward_args& args, ForwardProblem& problem, ForwardCall& call) {
  const struct {
    const char* name;
    const std::int32_t* data;
    const std::int32_t*& place;
  } arrays[] = {{"cu_seqlens_q", args.cu_seqlens_q, call.cu_seqlens_q},
                {"cu_seqlens_k", args.cu_seqlens_k, call.cu_seqlens_k},
                {"seqused_q", args.seqused_q, call.seqused_q},
                {"seqused_k", args.seqused_k, call.seqused_k}};
  for (const auto& [name, data, place] : arrays) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(std::int32_t) != 0)
      return invalid("{} is {}; it must be a multiple of 4 bytes", name, static_cast<const void*>(data));
    place = data;
  }
  problem.packed_q = args.cu_seqlens_q != nullptr;
  problem.packed_k = args.cu_seqlens_k != nullptr;
  problem.used_q = args.seqused_q != nullptr;
  problem.used_k = args.seqused_k != nullptr;
  if (args.num_sequences < 0) return invalid("num_sequences is {}; it must be 0 or more", args.num_sequences);
  for (const auto& [name, value, packed] :
       {std::tuple{"max_seqlen_q", args.max_seqlen_q, problem.packed_q}, {"max_seqlen_k", args.max_seqlen_k, problem.packed_k}}) {
    if (value < 0) return invalid("{} is {}; it must be 0 (not known) or more", name, value);
    if (value > 0 && !packed) return invalid("{} is {} and its sequences are not packed; it must be 0: the tensor says how long they are", name, value);
  }
  if (problem.packed_q || problem.packed_k) {
    problem.batch = args.num_sequences;
  } else {
    if (args.num_sequences != 0 && args.num_sequences != call.q.shape[0])
      return invalid("num_sequences is {} and q has batch {}; without cu_seqlens it must be that or 0", args.num_sequences, call.q.shape[0]);
    problem.batch = call.q.shape[0];
  }
  const auto batch_of = [&](const char* name, const Tensor& tensor, bool packed) -> Status {
    if (packed && tensor.shape[0] != 1)
      return invalid("{}.shape[0] (batch) is {}; it must be 1: cu_seqlens packs its sequences along seqlen", name, tensor.shape[0]);
    if (!packed && tensor.shape[0] != problem.batch)
      return invalid("{}.shape[0] (batch) is {}; it must be {}, {}", name, tensor.shape[0],
                     problem.packed_q || problem.packed_k ? "num_sequences" : "that of q", problem.batch);
    return {};
  };
  if (Status status = batch_of("q", call.q, problem.packed_q); !status.ok()) return status;
  return batch_of("k", call.k, problem.packed_k);
}

}  // namespace

Status validate(const tandem_forward_args* args, Addresses addresses, ForwardRequest& request) {
  if (args == nullptr) return invalid("args is NULL; it must point to a tandem_forward_args");
  if (args->size != sizeof(tandem_forward_args))
    return invalid("args.size is {}; this library knows {} (sizeof(tandem_forward_args) of version {}.{})", args->size, sizeof(tandem_forward_args),
                   TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR);
  if (args->reserved != 0) return invalid("args.reserved is {}; it must be 0", args->reserved);

  ForwardCall& call = request.call;
  Checks checks;
  checks.then([&] { return read_tensor("q", args->q, addresses, call.q); })
      .then([&] { return read_tensor("k", args->k, addresses, call.k); })
      .then([&] { return read_tensor("v", args->v, addresses, call.v); })
      .then([&] { return read_tensor("out", args->out, addresses, call.out); })
      .then([&] { return same_type("k", call.k, call.q); })
      .then([&] { return same_type("v", call.v, call.q); })
      .then([&] { return same_type("out", call.out, call.q); })
      .then([&] { return same_extent("v", call.v, 0, "k", call.k.shape[0]); })
      .then([&] { return same_extent("v", call.v, 1, "k", call.k.shape[1]); })
      .then([&] { return same_extent("v", call.v, 2, "k", call.k.shape[2]); })
      .then([&] { return same_extent("k", call.k, 3, "q", call.q.shape[3]); })
      .then([&] { return same_extent("out", call.out, 0, "q", call.q.shape[0]); })
      .then([&] { return same_extent("out", call.out, 1, "q", call.q.shape[1]); })
      .then([&] { return same_extent("out", call.out, 2, "q", call.q.shape[2]); })
      .then([&] { return same_extent("out", call.out, 3, "v", call.v.shape[3]); })
      .then([&] { return distinct_output(call.out); });
  if (Status status = std::move(checks).result(); !status.ok()) return status;

  ForwardProblem& problem = request.problem;
  problem = {.type = call.q.type,
             .seqlen_q = call.q.shape[1],
             .seqlen_k = call.k.shape[1],
             .num_heads = call.q.shape[2],
             .num_heads_kv = call.k.shape[2],
             .head_dim = call.q.shape[3],
             .head_dim_v = call.v.shape[3]};
  if (Status status = read_lengths(*args, problem, call); !status.ok()) return status;
  problem.longest_q = std::min(args->max_seqlen_q, problem.seqlen_q);
  problem.longest_k = std::min(args->max_seqlen_k, problem.seqlen_k);
  if (Status status = read_masks(*args, problem, call); !status.ok()) return status;
  if (args->sm_margin < 0) return invalid("sm_margin is {}; it must be 0 or the multiprocessors to leave to others", args->sm_margin);
  if (Status status = is_flag("batch_invariant", args->batch_invariant); !status.ok()) return status;
  problem.sm_margin = args->sm_margin;
  problem.batch_invariant = args->batch_invariant == 1;
  if (problem.num_heads_kv == 0 && problem.num_heads > 0)
    return invalid("k.shape[2] (heads) is 0 and q has {} heads; it must be at least 1", problem.num_heads);
  if (problem.num_heads > 0 && problem.num_heads % problem.num_heads_kv != 0)
    return invalid("q has {} heads and k has {}; the heads of q must be a multiple of those of k", problem.num_heads, problem.num_heads_kv);
  if (!std::isfinite(args->softmax_scale) || args->softmax_scale < 0)
    return invalid("softmax_scale is {}; it must be finite and not negative (1/sqrt(head_dim) is usual)", args->softmax_scale);
  call.softmax_scale = args->softmax_scale;
  return read_lse(*args, problem, call);
}

Status validate_run(const tandem_forward_args* args, const ForwardRequest*& request) {
  thread_local struct {
    tandem_forward_args args;
    ForwardRequest request;
    bool right = false;
  } last;
  request = &last.request;
  const bool whole = args != nullptr && args->size == sizeof last.args;
  if (whole && last.right && std::memcmp(args, &last.args, sizeof last.args) == 0) return {};
  last.right = false;
  last.request = {};
  if (Status status = validate(args, Addresses::required, last.request); !status.ok()) return status;
  if (whole) last.args = *args;
  last.right = whole;
  return {};
}

}  // namespace tandem::api
