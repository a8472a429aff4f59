// The C interface from outside: what it refuses and how, what it does with nothing to do, and that no exception leaves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.hpp"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

// ---------------------------------------------------------------------------------------------------------- a backend that is watched

// What the backend "recording" did, and what it is told to throw.
struct Recording {
  std::atomic<int> supported{0}, prepared{0}, initialised{0}, ran{0};
  std::size_t workspace_bytes = 0;
  std::function<void()> disturb = [] {};
};
Recording recording;

class RecordingForward final : public ForwardExecutable {
 public:
  std::size_t workspace_size() const override { return recording.workspace_bytes; }
  Status init_workspace(Workspace /*workspace*/, void* /*stream*/) const override {
    recording.disturb();
    ++recording.initialised;
    return {};
  }
  Status run(const ForwardCall& /*call*/, Workspace /*workspace*/, void* /*stream*/) const override {
    recording.disturb();
    ++recording.ran;
    return {};
  }
  std::string describe() const override { return "{}"; }
};

class RecordingBackend final : public Backend {
 public:
  std::string_view name() const override { return "recording"; }
  Status supports(const ForwardProblem& /*problem*/, const ForwardCall& /*call*/) const override {
    recording.disturb();
    ++recording.supported;
    return {};
  }
  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& /*problem*/) override {
    recording.disturb();
    ++recording.prepared;
    return std::unique_ptr<ForwardExecutable>(std::make_unique<RecordingForward>());
  }
};

Result<std::unique_ptr<Backend>> make_recording_backend(const BackendOptions& /*options*/) {
  recording.disturb();
  return std::unique_ptr<Backend>(std::make_unique<RecordingBackend>());
}

const bool registered = [] {
  register_backend("recording", make_recording_backend);
  return true;
}();

// -------------------------------------------------------------------------------------------------------------------------- helpers

struct Destroy {
  void operator()(tandem_context* context) const { tandem_context_destroy(context); }
  void operator()(tandem_forward_plan* plan) const { tandem_forward_plan_destroy(plan); }
};
using Context = std::unique_ptr<tandem_context, Destroy>;
using Plan = std::unique_ptr<tandem_forward_plan, Destroy>;

tandem_context_options options_for(const char* backend) {
  tandem_context_options options{};
  options.size = sizeof options;
  options.backend = backend;
  options.threads = 1;
  return options;
}

Context make_context(const char* backend = "cpu") {
  const tandem_context_options options = options_for(backend);
  tandem_context* context = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error();
  return Context(context);
}

void set_shape(tandem_tensor& tensor, std::int64_t batch, std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
  const std::int64_t shape[4] = {batch, seqlen, heads, dim}, stride[4] = {seqlen * heads * dim, heads * dim, dim, 1};
  std::copy(shape, shape + 4, tensor.shape);
  std::copy(stride, stride + 4, tensor.stride);
}

// A sound request with memory of its own: 2 batch entries, 3 queries, 5 keys, 4 heads over 2, head dims 16 and 8.
struct Request {
  tandem_forward_args args{};
  std::vector<float> q, k, v, out, lse;

  Request() : Request(2, 3, 5, 4, 2, 16, 8) {}
  Request(std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t heads, std::int64_t heads_kv, std::int64_t head_dim,
          std::int64_t head_dim_v) {
    args.size = sizeof args;
    const auto fill = [](tandem_tensor& tensor, std::vector<float>& memory, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) {
      set_shape(tensor, b, s, h, d);
      tensor.dtype = TANDEM_FP32;
      memory.assign(static_cast<std::size_t>(b * s * h * d), 0.5f);
      tensor.data = memory.empty() ? nullptr : memory.data();
    };
    fill(args.q, q, batch, seqlen_q, heads, head_dim);
    fill(args.k, k, batch, seqlen_k, heads_kv, head_dim);
    fill(args.v, v, batch, seqlen_k, heads_kv, head_dim_v);
    fill(args.out, out, batch, seqlen_q, heads, head_dim_v);
    lse.assign(static_cast<std::size_t>(batch * heads * seqlen_q), 0.5f);
    args.lse = lse.empty() ? nullptr : lse.data();
    args.softmax_scale = 0.25f;
  }
};

Plan prepare(const Context& context, const tandem_forward_args& args) {
  tandem_forward_plan* plan = nullptr;
  EXPECT_EQ(tandem_forward_prepare(context.get(), &args, &plan), TANDEM_OK) << tandem_last_error();
  return Plan(plan);
}

// ------------------------------------------------------------------------------------------------------------------ malformed requests

struct Malformed {
  const char* what;
  std::function<void(tandem_forward_args&)> change;
  std::vector<std::string> sentence;  // its beginning, and what else it holds: the value, what is accepted
  bool of_run = false;                // about addresses: supports and prepare do not mind
};

constexpr std::int32_t kLengths[] = {0, 1, 2, 3};

void* odd(void* address) { return static_cast<char*>(address) + 1; }

std::vector<Malformed> malformed_requests() {
  using Args = tandem_forward_args;
  std::vector<Malformed> list = {
      {"size 0", [](Args& a) { a.size = 0; }, {"args.size is 0", std::to_string(sizeof(Args))}},
      {"size of another version", [](Args& a) { a.size += 8; }, {"args.size is " + std::to_string(sizeof(Args) + 8)}},
      {"reserved", [](Args& a) { a.reserved = 3; }, {"args.reserved is 3", "must be 0"}},

      {"dtype 0", [](Args& a) { a.q.dtype = 0; }, {"q.dtype is 0", "TANDEM_BF16 (2)"}},
      {"dtype 99", [](Args& a) { a.k.dtype = 99; }, {"k.dtype is 99", "TANDEM_FP16 (1)"}},
      {"dtype -1", [](Args& a) { a.v.dtype = -1; }, {"v.dtype is -1"}},
      {"dtype 4", [](Args& a) { a.out.dtype = 4; }, {"out.dtype is 4"}},
      {"k of another type", [](Args& a) { a.k.dtype = TANDEM_BF16; }, {"k has dtype bf16", "q has fp32"}},
      {"v of another type", [](Args& a) { a.v.dtype = TANDEM_FP16; }, {"v has dtype fp16", "q has fp32"}},
      {"out of another type", [](Args& a) { a.out.dtype = TANDEM_FP16; }, {"out has dtype fp16", "q has fp32"}},

      {"reserved of q", [](Args& a) { a.q.reserved = 7; }, {"q.reserved is 7", "must be 0"}},
      {"reserved of k", [](Args& a) { a.k.reserved = 7; }, {"k.reserved is 7"}},
      {"reserved of v", [](Args& a) { a.v.reserved = 7; }, {"v.reserved is 7"}},
      {"reserved of out", [](Args& a) { a.out.reserved = -1; }, {"out.reserved is -1"}},

      {"negative batch", [](Args& a) { a.q.shape[0] = -2; }, {"q.shape[0] (batch) is -2", "0 or more"}},
      {"negative seqlen", [](Args& a) { a.k.shape[1] = -5; }, {"k.shape[1] (seqlen) is -5"}},
      {"negative heads", [](Args& a) { a.v.shape[2] = -1; }, {"v.shape[2] (heads) is -1"}},
      {"negative dim", [](Args& a) { a.out.shape[3] = std::numeric_limits<std::int64_t>::min(); }, {"out.shape[3] (dim) is -9223372036854775808"}},
      {"no columns in q", [](Args& a) { a.q.shape[3] = 0; }, {"q.shape[3] (dim) is 0", "at least 1"}},
      {"no columns in v", [](Args& a) { a.v.shape[3] = 0; }, {"v.shape[3] (dim) is 0"}},

      {"negative stride", [](Args& a) { a.q.stride[1] = -64; }, {"q.stride[1] (seqlen) is -64", "0 or more"}},
      {"negative stride of the last axis", [](Args& a) { a.v.stride[3] = -1; }, {"v.stride[3] (dim) is -1"}},
      {"reach past 2^60", [](Args& a) { a.k.stride[0] = std::numeric_limits<std::int64_t>::max(); }, {"k reaches past 2^60 elements along batch"}},
      {"reach past 2^60 by shape",
       [](Args& a) {
         a.v.shape[1] = std::int64_t{1} << 40;
         a.v.stride[1] = std::int64_t{1} << 30;
       },
       {"v reaches past 2^60 elements along seqlen", "1099511627776"}},

      {"batch of k and v", [](Args& a) { a.k.shape[0] = a.v.shape[0] = 3; }, {"k.shape[0] (batch) is 3", "that of q, 2"}},
      {"batch of v", [](Args& a) { a.v.shape[0] = 1; }, {"v.shape[0] (batch) is 1", "that of k, 2"}},
      {"batch of out", [](Args& a) { a.out.shape[0] = 4; }, {"out.shape[0] (batch) is 4", "that of q, 2"}},
      {"keys without values", [](Args& a) { a.v.shape[1] = 4; }, {"v.shape[1] (seqlen) is 4", "that of k, 5"}},
      {"heads of v", [](Args& a) { a.v.shape[2] = 4; }, {"v.shape[2] (heads) is 4", "that of k, 2"}},
      {"head dim of k", [](Args& a) { a.k.shape[3] = 8; }, {"k.shape[3] (dim) is 8", "that of q, 16"}},
      {"queries of out", [](Args& a) { a.out.shape[1] = 5; }, {"out.shape[1] (seqlen) is 5", "that of q, 3"}},
      {"heads of out", [](Args& a) { a.out.shape[2] = 2; }, {"out.shape[2] (heads) is 2", "that of q, 4"}},
      {"head dim of out", [](Args& a) { a.out.shape[3] = 16; }, {"out.shape[3] (dim) is 16", "that of v, 8"}},

      {"heads that do not divide",
       [](Args& a) {
         set_shape(a.k, 2, 5, 3, 16);
         set_shape(a.v, 2, 5, 3, 8);
       },
       {"q has 4 heads and k has 3", "multiple"}},
      {"no KV heads",
       [](Args& a) {
         set_shape(a.k, 2, 5, 0, 16);
         set_shape(a.v, 2, 5, 0, 8);
       },
       {"k.shape[2] (heads) is 0", "q has 4 heads"}},

      {"out expanded over the batch", [](Args& a) { a.out.stride[0] = 0; }, {"out.stride[0] (batch) is 0"}},
      {"out expanded over queries", [](Args& a) { a.out.stride[1] = 0; }, {"out.stride[1] (seqlen) is 0"}},
      {"out expanded over heads", [](Args& a) { a.out.stride[2] = 0; }, {"out.stride[2] (heads) is 0"}},
      {"out expanded over columns", [](Args& a) { a.out.stride[3] = 0; }, {"out.stride[3] (dim) is 0"}},
      {"rows of out that overlap", [](Args& a) { a.out.stride[2] = 4; }, {"out.stride[2] (heads) is 4", "at least 8"}},
      {"batch entries of out that overlap", [](Args& a) { a.out.stride[0] = 95; }, {"out.stride[0] (batch) is 95", "at least 96"}},

      {"window 2", [](Args& a) { a.window = 2; }, {"window is 2", "0 or 1"}},
      {"a left side without a window", [](Args& a) { a.window_left = 8; }, {"window is 0 and window_left is 8", "set window to 1"}},
      {"a right side without a window", [](Args& a) { a.window_right = -1; }, {"window is 0 and window_left is 0, window_right -1"}},
      {"attention_chunk negative", [](Args& a) { a.attention_chunk = -64; }, {"attention_chunk is -64", "must be 0 (none)"}},
      {"softcap negative", [](Args& a) { a.softcap = -30.0f; }, {"softcap is -30", "must be 0 (none)"}},
      {"softcap NaN", [](Args& a) { a.softcap = kNan; }, {"softcap is nan"}},
      {"softcap infinite", [](Args& a) { a.softcap = kInfinity; }, {"softcap is inf"}},
      {"sinks misaligned", [](Args& a) { a.sinks = static_cast<float*>(odd(a.lse)); }, {"sinks is 0x", "multiple of 4 bytes"}},
      {"sm_margin negative", [](Args& a) { a.sm_margin = -1; }, {"sm_margin is -1", "multiprocessors"}},
      {"batch_invariant 2", [](Args& a) { a.batch_invariant = 2; }, {"batch_invariant is 2", "0 or 1"}},

      {"num_sequences negative", [](Args& a) { a.num_sequences = -1; }, {"num_sequences is -1", "0 or more"}},
      {"num_sequences of padded tensors", [](Args& a) { a.num_sequences = 3; }, {"num_sequences is 3 and q has batch 2"}},
      {"max_seqlen_q of padded queries", [](Args& a) { a.max_seqlen_q = 3; }, {"max_seqlen_q is 3", "not packed"}},
      {"max_seqlen_k of padded keys", [](Args& a) { a.max_seqlen_k = 5; }, {"max_seqlen_k is 5", "not packed"}},
      {"max_seqlen_q negative", [](Args& a) { a.max_seqlen_q = -3; }, {"max_seqlen_q is -3", "0 (not known)"}},
      {"max_seqlen_k negative", [](Args& a) { a.max_seqlen_k = -5; }, {"max_seqlen_k is -5", "0 (not known)"}},
      {"packed queries with a batch", [](Args& a) { a.cu_seqlens_q = kLengths; }, {"q.shape[0] (batch) is 2", "must be 1: cu_seqlens"}},
      {"packed keys with a batch",
       [](Args& a) {
         a.cu_seqlens_k = kLengths;
         a.num_sequences = 2;
       },
       {"k.shape[0] (batch) is 2", "must be 1: cu_seqlens"}},
      {"packed queries of another number of sequences",
       [](Args& a) {
         set_shape(a.q, 1, 3, 4, 16);
         set_shape(a.out, 1, 3, 4, 8);
         a.cu_seqlens_q = kLengths;
         a.num_sequences = 3;
       },
       {"k.shape[0] (batch) is 2", "it must be num_sequences, 3"}},
      {"packed keys of another number of sequences",
       [](Args& a) {
         set_shape(a.k, 1, 5, 2, 16);
         set_shape(a.v, 1, 5, 2, 8);
         a.cu_seqlens_k = kLengths;
         a.num_sequences = 1;
       },
       {"q.shape[0] (batch) is 2", "it must be num_sequences, 1"}},

      {"causal 2", [](Args& a) { a.causal = 2; }, {"causal is 2", "0 or 1"}},
      {"causal -1", [](Args& a) { a.causal = -1; }, {"causal is -1"}},
      {"scale NaN", [](Args& a) { a.softmax_scale = kNan; }, {"softmax_scale is nan", "finite and not negative"}},
      {"scale infinite", [](Args& a) { a.softmax_scale = kInfinity; }, {"softmax_scale is inf"}},
      {"scale negative", [](Args& a) { a.softmax_scale = -0.125f; }, {"softmax_scale is -0.125"}},

      {"lse misaligned", [](Args& a) { a.lse = static_cast<float*>(odd(a.lse)); }, {"lse is 0x", "multiple of 4 bytes"}},
      {"lse heads that overlap",
       [](Args& a) {
         a.lse_stride_head = 2;
         a.lse_stride_batch = 12;
       },
       {"lse_stride_head is 2", "at least 3"}},
      {"lse batch entries that overlap",
       [](Args& a) {
         a.lse_stride_head = 3;
         a.lse_stride_batch = 11;
       },
       {"lse_stride_batch is 11", "at least 12"}},
      {"lse batch stride left out", [](Args& a) { a.lse_stride_head = 3; }, {"lse_stride_batch is 0"}},
      {"lse heads one element apart",
       [](Args& a) {
         a.lse_stride_head = 1;
         a.lse_stride_batch = 12;
       },
       {"lse_stride_head is 1", "at least 3"}},
      {"lse head stride negative",
       [](Args& a) {
         a.lse_stride_head = -3;
         a.lse_stride_batch = 12;
       },
       {"lse_stride_head is -3"}},
      {"lse out of reach",
       [](Args& a) {
         a.lse_stride_head = 3;
         a.lse_stride_batch = std::numeric_limits<std::int64_t>::max();
       },
       {"lse_stride_batch is 9223372036854775807", "past 2^60"}},
  };
  const struct {
    const char* name;
    const std::int32_t* tandem_forward_args::*array;
  } lengths[] = {
      {"cu_seqlens_q", &Args::cu_seqlens_q}, {"cu_seqlens_k", &Args::cu_seqlens_k}, {"seqused_q", &Args::seqused_q}, {"seqused_k", &Args::seqused_k}};
  for (const auto& [name, array] : lengths) {
    list.push_back(
        {"odd lengths", [array](Args& a) { a.*array = static_cast<const std::int32_t*>(odd(a.lse)); }, {std::string(name) + " is 0x", "multiple of 4 bytes"}});
  }
  const struct {
    const char* name;
    tandem_tensor tandem_forward_args::*tensor;
  } tensors[] = {{"q", &tandem_forward_args::q}, {"k", &tandem_forward_args::k}, {"v", &tandem_forward_args::v}, {"out", &tandem_forward_args::out}};
  for (const auto& [name, tensor] : tensors) {
    list.push_back({"NULL data", [tensor](Args& a) { (a.*tensor).data = nullptr; }, {std::string(name) + ".data is NULL", "needs an address"}, true});
    list.push_back({"odd data",
                    [tensor](Args& a) { (a.*tensor).data = odd((a.*tensor).data); },
                    {std::string(name) + ".data is 0x", "multiple of the element size, 4 bytes"}});
  }
  return list;
}

void expect_sentence(const std::string& text, const Malformed& request) {
  ASSERT_FALSE(request.sentence.empty());
  EXPECT_THAT(text, StartsWith(request.sentence[0])) << request.what;
  for (const std::string& part : request.sentence) EXPECT_THAT(text, HasSubstr(part)) << request.what;
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one sentence";
}

TEST(CAbiRefusal, EveryMalformedRequestHasItsOwnSentence) {
  const Context context = make_context();
  const Request good;
  const Plan plan = prepare(context, good.args);
  ASSERT_NE(plan, nullptr);
  std::set<std::string> sentences;
  const auto list = malformed_requests();
  ASSERT_GE(list.size(), 30u);
  for (const Malformed& malformed : list) {
    SCOPED_TRACE(malformed.what);
    Request request;
    malformed.change(request.args);
    if (malformed.of_run) {
      EXPECT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_OK) << "addresses are not needed yet";
    } else {
      EXPECT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_INVALID_ARGUMENT);
      expect_sentence(tandem_last_error(), malformed);
      tandem_forward_plan* none = plan.get();
      EXPECT_EQ(tandem_forward_prepare(context.get(), &request.args, &none), TANDEM_INVALID_ARGUMENT);
      EXPECT_EQ(none, nullptr) << "a plan that was not made must not look like one";
      expect_sentence(tandem_last_error(), malformed);
    }
    EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_INVALID_ARGUMENT);
    expect_sentence(tandem_last_error(), malformed);
    EXPECT_TRUE(sentences.insert(tandem_last_error()).second) << "said before: " << tandem_last_error();
    EXPECT_THAT(request.out, ::testing::Each(0.5f)) << "written in spite of the refusal";
  }
  EXPECT_EQ(sentences.size(), list.size());
}

TEST(CAbiRefusal, TheSoundRequestPasses) {
  const Context context = make_context();
  Request request;
  EXPECT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_OK) << tandem_last_error();
  const Plan plan = prepare(context, request.args);
  EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
  EXPECT_THAT(request.out, ::testing::Each(::testing::FloatEq(0.5f)));
  EXPECT_THAT(request.lse, ::testing::Each(::testing::FloatNear(0.25f * 16 * 0.25f + std::log(5.0f), 1e-5f)));
}

TEST(CAbiRefusal, LegalOdditiesPass) {
  const Context context = make_context();
  Request request;
  const Plan plan = prepare(context, request.args);
  for (const std::function<void(tandem_forward_args&)>& change : std::vector<std::function<void(tandem_forward_args&)>>{
           [](auto& a) { a.lse = nullptr; },
           [](auto& a) { a.softmax_scale = 0.0f; },
           [](auto& a) { a.softmax_scale = std::numeric_limits<float>::denorm_min(); },
           [](auto& a) { a.k.stride[0] = a.v.stride[2] = 0; },
           [](auto& a) { a.q.stride[1] = 0; },
       }) {
    tandem_forward_args args = request.args;
    change(args);
    EXPECT_EQ(tandem_forward_run(plan.get(), &args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
  }
  Request single(1, 1, 1, 1, 1, 1, 1);
  for (tandem_tensor* tensor : {&single.args.q, &single.args.k, &single.args.v, &single.args.out})
    for (std::int64_t& stride : tensor->stride) stride = -7;  // never used
  single.args.lse_stride_batch = -7;
  EXPECT_EQ(tandem_forward_run(prepare(context, single.args).get(), &single.args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
}

// ----------------------------------------------------------------------------------------------------------------------- NULL and objects

TEST(CAbiNull, EveryFunctionTakesIt) {
  const Context context = make_context();
  const Request request;
  const Plan plan = prepare(context, request.args);
  const tandem_context_options options = options_for("cpu");
  const auto refused = [&](tandem_status status, const char* beginning) {
    EXPECT_EQ(status, TANDEM_INVALID_ARGUMENT) << beginning;
    EXPECT_THAT(tandem_last_error(), StartsWith(beginning));
  };
  refused(tandem_context_create(&options, nullptr), "context is NULL");
  refused(tandem_forward_supports(nullptr, &request.args), "context is NULL");
  refused(tandem_forward_supports(context.get(), nullptr), "args is NULL");
  tandem_forward_plan* made = nullptr;
  refused(tandem_forward_prepare(nullptr, &request.args, &made), "context is NULL");
  refused(tandem_forward_prepare(context.get(), nullptr, &made), "args is NULL");
  refused(tandem_forward_prepare(context.get(), &request.args, nullptr), "plan is NULL");
  refused(tandem_forward_run(nullptr, &request.args, nullptr, 0, nullptr), "plan is NULL");
  refused(tandem_forward_run(plan.get(), nullptr, nullptr, 0, nullptr), "args is NULL");
  refused(tandem_forward_workspace_init(nullptr, nullptr, 0, nullptr), "plan is NULL");
  EXPECT_EQ(made, nullptr);
  EXPECT_STREQ(tandem_context_backend(nullptr), "");
  EXPECT_STREQ(tandem_forward_plan_json(nullptr), "");
  EXPECT_EQ(tandem_forward_workspace_size(nullptr), 0u);
  tandem_context_destroy(nullptr);
  tandem_forward_plan_destroy(nullptr);
}

TEST(CAbiContext, RefusesMalformedOptionsEachWithItsOwnSentence) {
  const struct {
    std::function<void(tandem_context_options&)> change;
    std::vector<const char*> sentence;
  } cases[] = {
      {[](auto& o) { o.size = 0; }, {"options.size is 0", "sizeof(tandem_context_options)"}},
      {[](auto& o) { o.size += 4; }, {"options.size is"}},
      {[](auto& o) { o.reserved = 1; }, {"options.reserved is 1", "must be 0"}},
      {[](auto& o) { o.device = -1; }, {"options.device is -1", "0 or more"}},
      {[](auto& o) { o.threads = -2; }, {"options.threads is -2", "0 (one for each core)"}},
      {[](auto& o) { o.backend = "warp9"; }, {"backend is \"warp9\"", "\"auto\"", "\"cpu\"", "\"hopper\""}},
      {[](auto& o) { o.backend = ""; }, {"backend is \"\""}},
      {[](auto& o) { o.backend = "CPU"; }, {"backend is \"CPU\""}},
  };
  std::set<std::string> sentences;
  for (const auto& [change, sentence] : cases) {
    tandem_context_options options = options_for("cpu");
    change(options);
    auto* context = reinterpret_cast<tandem_context*>(std::uintptr_t{8});
    EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_INVALID_ARGUMENT);
    EXPECT_EQ(context, nullptr);
    for (const char* part : sentence) EXPECT_THAT(tandem_last_error(), HasSubstr(part));
    EXPECT_TRUE(sentences.insert(tandem_last_error()).second);
  }
}

TEST(CAbiContext, DefaultsToABackendThatWorksHere) {
  tandem_context* context = nullptr;
  ASSERT_EQ(tandem_context_create(nullptr, &context), TANDEM_OK) << tandem_last_error();
  EXPECT_THAT(tandem_context_backend(context), ::testing::AnyOf(::testing::StrEq("cpu"), ::testing::StrEq("hopper")));
  tandem_context_destroy(context);
}

TEST(CAbiContext, SaysWhyHopperIsNotAvailable) {
  const tandem_context_options options = options_for("hopper");
  tandem_context* context = nullptr;
  const tandem_status status = tandem_context_create(&options, &context);
  if (status == TANDEM_OK) {
    tandem_context_destroy(context);
    GTEST_SKIP() << "there is a Hopper GPU here";
  }
  EXPECT_EQ(status, TANDEM_UNAVAILABLE);
  EXPECT_STRNE(tandem_last_error(), "");
}

TEST(CAbiPlan, OutlivesItsContextInMemory) {
  Request request;
  Context context = make_context();
  const Plan plan = prepare(context, request.args);
  context.reset();
  EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
}

TEST(CAbiPlan, RefusesArgumentsOfAnotherProblemAndNamesBoth) {
  const Context context = make_context();
  const Request request;
  const Plan plan = prepare(context, request.args);
  std::set<std::string> sentences;
  const auto refused = [&](Request&& other, const char* part) {
    EXPECT_EQ(tandem_forward_run(plan.get(), &other.args, nullptr, 0, nullptr), TANDEM_INVALID_ARGUMENT) << part;
    EXPECT_THAT(tandem_last_error(),
                AllOf(StartsWith("args describe"), HasSubstr(part), HasSubstr("prepared for fp32 batch 2 seqlen_q 3 seqlen_k 5 heads 4/2")));
    EXPECT_TRUE(sentences.insert(tandem_last_error()).second);
  };
  refused(Request(3, 3, 5, 4, 2, 16, 8), "batch 3");
  refused(Request(2, 4, 5, 4, 2, 16, 8), "seqlen_q 4");
  refused(Request(2, 3, 6, 4, 2, 16, 8), "seqlen_k 6");
  refused(Request(2, 3, 5, 6, 2, 16, 8), "heads 6/2");
  refused(Request(2, 3, 5, 4, 4, 16, 8), "heads 4/4");
  refused(Request(2, 3, 5, 4, 2, 8, 8), "head_dim 8/8");
  refused(Request(2, 3, 5, 4, 2, 16, 16), "head_dim 16/16");
  refused(Request(0, 3, 5, 4, 2, 16, 8), "batch 0");
  Request causal;
  causal.args.causal = 1;
  refused(std::move(causal), "causal");
  Request half;
  for (tandem_tensor* tensor : {&half.args.q, &half.args.k, &half.args.v, &half.args.out}) tensor->dtype = TANDEM_FP16;
  refused(std::move(half), "fp16");
}

// Arguments that were right once are not looked at again; what differs from them in anything is.
TEST(CAbiPlan, RunRefusesWhatChangedSinceARunThatWasRight) {
  const Context context = make_context();
  for (const Malformed& malformed : malformed_requests()) {
    SCOPED_TRACE(malformed.what);
    Request request;
    const Plan plan = prepare(context, request.args);
    const auto run = [&](const tandem_forward_args& args) { return tandem_forward_run(plan.get(), &args, nullptr, 0, nullptr); };
    tandem_forward_args changed = request.args;
    malformed.change(changed);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(run(request.args), TANDEM_OK) << tandem_last_error();
      EXPECT_NE(run(changed), TANDEM_OK);
      EXPECT_NE(run(changed), TANDEM_OK) << "nor at the second time";
    }
  }
}

TEST(CAbiPlan, DescribesItselfAsJson) {
  const Context context = make_context();
  const Request request;
  const Plan plan = prepare(context, request.args);
  EXPECT_THAT(tandem_forward_plan_json(plan.get()), AllOf(StartsWith("{"), HasSubstr("\"backend\":\"cpu\""), HasSubstr("\"reason\"")));
}

// ---------------------------------------------------------------------------------------------------------------------------- workspace

TEST(CAbiWorkspace, IsCheckedBeforeItIsUsed) {
  recording.workspace_bytes = 64;
  const Context context = make_context("recording");
  const Request request;
  const Plan plan = prepare(context, request.args);
  EXPECT_EQ(tandem_forward_workspace_size(plan.get()), 64u);
  alignas(16) std::array<char, 96> memory{};
  const int ran = recording.ran, initialised = recording.initialised;
  const struct {
    void* workspace;
    std::size_t size;
    std::vector<const char*> sentence;
  } cases[] = {
      {nullptr, 64, {"workspace is NULL", "64 bytes"}},
      {memory.data(), 63, {"workspace_size is 63", "64 bytes"}},
      {memory.data(), 0, {"workspace_size is 0"}},
      {memory.data() + 8, 64, {"workspace is 0x", "multiple of 16"}},
  };
  for (const auto& [workspace, size, sentence] : cases) {
    EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, workspace, size, nullptr), TANDEM_INVALID_ARGUMENT);
    for (const char* part : sentence) EXPECT_THAT(tandem_last_error(), HasSubstr(part));
    EXPECT_EQ(tandem_forward_workspace_init(plan.get(), workspace, size, nullptr), TANDEM_INVALID_ARGUMENT);
    for (const char* part : sentence) EXPECT_THAT(tandem_last_error(), HasSubstr(part));
  }
  EXPECT_EQ(recording.ran, ran);
  EXPECT_EQ(recording.initialised, initialised);
  EXPECT_EQ(tandem_forward_workspace_init(plan.get(), memory.data(), 64, nullptr), TANDEM_OK);
  EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, memory.data() + 16, 80, nullptr), TANDEM_OK);
  EXPECT_EQ(recording.ran, ran + 1);
  EXPECT_EQ(recording.initialised, initialised + 1);
  recording.workspace_bytes = 0;
}

TEST(CAbiWorkspace, MayBeLeftOutWhereNoneIsNeeded) {
  const Context context = make_context("recording");
  const Request request;
  const Plan plan = prepare(context, request.args);
  EXPECT_EQ(tandem_forward_workspace_size(plan.get()), 0u);
  EXPECT_EQ(tandem_forward_workspace_init(plan.get(), nullptr, 0, nullptr), TANDEM_OK);
  EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_OK);
}

// --------------------------------------------------------------------------------------------------------------------------- empty work

TEST(CAbiEmptyWork, IsFineAndReachesNoBackend) {
  const Context context = make_context("recording");
  recording.workspace_bytes = 64;  // not even a workspace is needed
  for (const Request& request : {Request(0, 3, 5, 4, 2, 16, 8), Request(2, 0, 5, 4, 2, 16, 8), Request(2, 3, 5, 0, 2, 16, 8), Request(2, 3, 5, 0, 0, 16, 8),
                                 Request(2, 0, 0, 4, 2, 16, 8), Request(0, 0, 0, 0, 0, 16, 8)}) {
    SCOPED_TRACE(::testing::Message() << "batch " << request.args.q.shape[0] << " queries " << request.args.q.shape[1] << " heads " << request.args.q.shape[2]);
    EXPECT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_OK) << tandem_last_error();
    const int prepared = recording.prepared, ran = recording.ran;
    const Plan plan = prepare(context, request.args);
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(tandem_forward_workspace_size(plan.get()), 0u);
    EXPECT_EQ(tandem_forward_workspace_init(plan.get(), nullptr, 0, nullptr), TANDEM_OK);
    EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
    EXPECT_THAT(tandem_forward_plan_json(plan.get()), HasSubstr("nothing to do"));
    EXPECT_EQ(recording.prepared, prepared);
    EXPECT_EQ(recording.ran, ran);
  }
  recording.workspace_bytes = 0;
}

TEST(CAbiEmptyWork, WithoutKeysTheOutputIsZeroAndTheLseMinusInfinity) {
  const Context context = make_context();
  for (const int causal : {0, 1}) {
    Request request(2, 3, 0, 4, 2, 16, 8);
    request.args.causal = causal;
    ASSERT_EQ(request.args.k.data, nullptr);
    const Plan plan = prepare(context, request.args);
    EXPECT_EQ(tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr), TANDEM_OK) << tandem_last_error();
    EXPECT_THAT(request.out, ::testing::Each(0.0f));
    EXPECT_THAT(request.lse, ::testing::Each(-kInfinity));
  }
}

// --------------------------------------------------------------------------------------------------------------------------- exceptions

TEST(CAbiExceptions, BecomeStatuses) {
  const struct {
    std::function<void()> disturb;
    tandem_status status;
    const char* sentence;
  } cases[] = {
      {[] { throw std::bad_alloc(); }, TANDEM_OUT_OF_MEMORY, "out of memory"},
      {[] { throw std::runtime_error("a wheel came off"); }, TANDEM_INTERNAL_ERROR, "a wheel came off"},
      {[] { throw 42; }, TANDEM_INTERNAL_ERROR, "unknown kind"},
  };
  const Context context = make_context("recording");
  const Request request;
  const Plan plan = prepare(context, request.args);
  const tandem_context_options options = options_for("recording");
  recording.workspace_bytes = 16;
  alignas(16) std::array<char, 16> memory{};
  for (const auto& [disturb, status, sentence] : cases) {
    recording.disturb = disturb;
    tandem_context* other = nullptr;
    tandem_forward_plan* made = nullptr;
    const auto expect = [&, wanted = status, text = sentence](tandem_status got) {
      EXPECT_EQ(got, wanted);
      EXPECT_THAT(tandem_last_error(), HasSubstr(text));
    };
    expect(tandem_context_create(&options, &other));
    expect(tandem_forward_supports(context.get(), &request.args));
    expect(tandem_forward_prepare(context.get(), &request.args, &made));
    expect(tandem_forward_workspace_init(plan.get(), memory.data(), memory.size(), nullptr));
    expect(tandem_forward_run(plan.get(), &request.args, memory.data(), memory.size(), nullptr));
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(made, nullptr);
  }
  recording.disturb = [] {};
  recording.workspace_bytes = 0;
}

// ------------------------------------------------------------------------------------------------------------------------------ texts

TEST(CAbiTexts, EveryStatusHasAName) {
  std::set<std::string> names;
  for (int status = TANDEM_OK; status <= TANDEM_INTERNAL_ERROR; ++status) names.insert(tandem_status_name(static_cast<tandem_status>(status)));
  EXPECT_EQ(names.size(), 8u);
  EXPECT_STREQ(tandem_status_name(TANDEM_OK), "ok");
  for (const int status : {-1, 8, 1'000'000}) EXPECT_STREQ(tandem_status_name(static_cast<tandem_status>(status)), "unknown status");
}

TEST(CAbiTexts, VersionIsThatOfTheHeader) {
  EXPECT_EQ(std::string(tandem_version()),
            std::to_string(TANDEM_VERSION_MAJOR) + "." + std::to_string(TANDEM_VERSION_MINOR) + "." + std::to_string(TANDEM_VERSION_PATCH));
}

TEST(CAbiTexts, StructsAreLaidOutAsTheInterfaceSays) {
  // Binary compatibility: a change here is a new version of the interface.
  EXPECT_EQ(sizeof(tandem_tensor), 80u);
  EXPECT_EQ(sizeof(tandem_forward_args), 464u);
  EXPECT_EQ(offsetof(tandem_forward_args, q), 8u);
  EXPECT_EQ(offsetof(tandem_forward_args, lse), 328u);
  EXPECT_EQ(offsetof(tandem_forward_args, softmax_scale), 352u);
  EXPECT_EQ(offsetof(tandem_forward_args, window_left), 368u);
  EXPECT_EQ(offsetof(tandem_forward_args, sinks), 400u);
  EXPECT_EQ(offsetof(tandem_forward_args, num_sequences), 440u);
  EXPECT_EQ(sizeof(tandem_context_options), 32u);
}

// ----------------------------------------------------------------------------------------------------------------------------- threads

TEST(CAbiThreads, KeepTheirOwnErrors) {
  const Context context = make_context("recording");
  const auto fail = [&](float scale) {
    Request request;
    request.args.softmax_scale = scale;
    return tandem_forward_supports(context.get(), &request.args);
  };
  ASSERT_EQ(fail(-1.0f), TANDEM_INVALID_ARGUMENT);
  const std::string before = tandem_last_error();
  std::thread([] { EXPECT_STREQ(tandem_last_error(), "") << "a thread in which nothing failed"; }).join();

  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 2; i < 6; ++i)
    threads.emplace_back([&, i] {
      const std::string expected = "softmax_scale is -" + std::to_string(i) + ";";
      for (int round = 0; round < 500; ++round) {
        if (fail(static_cast<float>(-i)) != TANDEM_INVALID_ARGUMENT) ++wrong;
        if (std::string(tandem_last_error()).rfind(expected, 0) != 0) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tandem_last_error(), before);
}

TEST(CAbiThreads, SuccessLeavesTheLastErrorAlone) {
  const Context context = make_context();
  Request request;
  request.args.causal = 9;
  ASSERT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_INVALID_ARGUMENT);
  request.args.causal = 1;
  ASSERT_EQ(tandem_forward_supports(context.get(), &request.args), TANDEM_OK);
  EXPECT_THAT(tandem_last_error(), StartsWith("causal is 9"));
}

TEST(CAbiThreads, ShareAContextAndAPlan) {
  const Context context = make_context();
  const Request shape;
  const Plan plan = prepare(context, shape.args);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        Request request;
        std::fill(request.v.begin(), request.v.end(), static_cast<float>(i));
        if (round % 2 == 0) {
          tandem_forward_plan* own = nullptr;
          if (tandem_forward_prepare(context.get(), &request.args, &own) != TANDEM_OK) ++wrong;
          if (tandem_forward_run(own, &request.args, nullptr, 0, nullptr) != TANDEM_OK) ++wrong;
          tandem_forward_plan_destroy(own);
        } else if (tandem_forward_run(plan.get(), &request.args, nullptr, 0, nullptr) != TANDEM_OK) {
          ++wrong;
        }
        for (const float value : request.out)
          if (std::abs(value - static_cast<float>(i)) > 1e-5f) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tandem
