// The C ABI: the one place where exceptions end and messages are kept for the caller.
#include <fmt/format.h>

#include <memory>
#include <new>
#include <string>

#include "api/validate.hpp"
#include "backends/backend.hpp"
#include "common/describe.hpp"
#include "tandem/tandem.h"

struct tandem_context {
  std::shared_ptr<tandem::Backend> backend;
  std::string name;
};

struct tandem_forward_plan {
  std::shared_ptr<tandem::Backend> backend;  // kernels live as long as their plans
  tandem::ForwardProblem problem;
  std::unique_ptr<tandem::ForwardExecutable> executable;  // null: nothing to do
  std::string json;
};

namespace {

using tandem::Status;
using tandem::StatusCode;
using tandem::api::Addresses;
using tandem::api::ForwardRequest;

thread_local std::string last_error;

tandem_status report(const Status& status) noexcept {
  if (status.ok()) return TANDEM_OK;
  try {
    last_error = status.message();
  } catch (...) {
    last_error.clear();
  }
  return static_cast<tandem_status>(status.code());
}

Status invalid(std::string message) { return {StatusCode::invalid_argument, std::move(message)}; }

// Runs `body`, which returns a Status, and lets nothing but a status out.
template <class Body>
tandem_status guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status(StatusCode::out_of_memory, "the host is out of memory"));
  } catch (const std::exception& error) {
    return report(Status(StatusCode::internal_error, fmt::format("internal error: {}", error.what())));
  } catch (...) {
    return report(Status(StatusCode::internal_error, "internal error of unknown kind"));
  }
}

Status read_options(const tandem_context_options* options, std::string& backend, tandem::BackendOptions& read) {
  if (options == nullptr) return {};
  if (options->size != sizeof(tandem_context_options))
    return invalid(fmt::format("options.size is {}; this library knows {} (sizeof(tandem_context_options))", options->size, sizeof(tandem_context_options)));
  if (options->reserved != 0) return invalid(fmt::format("options.reserved is {}; it must be 0", options->reserved));
  if (options->device < 0) return invalid(fmt::format("options.device is {}; it must be a CUDA device ordinal, 0 or more", options->device));
  if (options->threads < 0) return invalid(fmt::format("options.threads is {}; it must be 0 (one for each core) or more", options->threads));
  if (options->backend != nullptr) backend = options->backend;
  if (options->cache_dir != nullptr) read.cache_dir = options->cache_dir;
  read.device = options->device;
  read.threads = options->threads;
  return {};
}

Status check_workspace(const tandem_forward_plan& plan, const void* workspace, std::size_t size) {
  const std::size_t needed = plan.executable->workspace_size();
  if (needed == 0) return {};
  if (workspace == nullptr) return invalid(fmt::format("workspace is NULL; this plan needs {} bytes", needed));
  if (size < needed) return invalid(fmt::format("workspace_size is {}; this plan needs {} bytes", size, needed));
  if (reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0) return invalid(fmt::format("workspace is {}; it must be a multiple of 16 bytes", workspace));
  return {};
}

}  // namespace

extern "C" {

const char* tandem_version(void) {
#define TANDEM_TEXT_(x) #x
#define TANDEM_TEXT(x) TANDEM_TEXT_(x)
  return TANDEM_TEXT(TANDEM_VERSION_MAJOR) "." TANDEM_TEXT(TANDEM_VERSION_MINOR) "." TANDEM_TEXT(TANDEM_VERSION_PATCH);
#undef TANDEM_TEXT
#undef TANDEM_TEXT_
}

const char* tandem_status_name(tandem_status status) {
  switch (status) {
    case TANDEM_OK: return "ok";
    case TANDEM_INVALID_ARGUMENT: return "invalid argument";
    case TANDEM_UNSUPPORTED: return "unsupported";
    case TANDEM_UNAVAILABLE: return "unavailable";
    case TANDEM_COMPILE_ERROR: return "compile error";
    case TANDEM_DRIVER_ERROR: return "driver error";
    case TANDEM_OUT_OF_MEMORY: return "out of memory";
    case TANDEM_INTERNAL_ERROR: return "internal error";
  }
  return "unknown status";
}

const char* tandem_last_error(void) { return last_error.c_str(); }

tandem_status tandem_context_create(const tandem_context_options* options, tandem_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context is NULL; it must point to where the new context goes");
    *context = nullptr;
    std::string name = "auto";
    tandem::BackendOptions read;
    if (Status status = read_options(options, name, read); !status.ok()) return status;
    auto backend = tandem::make_backend(name, read);
    if (!backend.ok()) return backend.status();
    auto made = std::make_unique<tandem_context>();
    made->backend = std::move(backend).value();
    made->name = made->backend->name();
    *context = made.release();
    return {};
  });
}

void tandem_context_destroy(tandem_context* context) { delete context; }

const char* tandem_context_backend(const tandem_context* context) { return context == nullptr ? "" : context->name.c_str(); }

tandem_status tandem_forward_supports(tandem_context* context, const tandem_forward_args* args) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context is NULL; make one with tandem_context_create");
    ForwardRequest request;
    if (Status status = tandem::api::validate(args, Addresses::optional, request); !status.ok()) return status;
    return context->backend->supports(request.problem, request.call);
  });
}

tandem_status tandem_forward_prepare(tandem_context* context, const tandem_forward_args* args, tandem_forward_plan** plan) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context is NULL; make one with tandem_context_create");
    if (plan == nullptr) return invalid("plan is NULL; it must point to where the new plan goes");
    *plan = nullptr;
    ForwardRequest request;
    if (Status status = tandem::api::validate(args, Addresses::optional, request); !status.ok()) return status;
    if (Status status = context->backend->supports(request.problem, request.call); !status.ok()) return status;
    auto made = std::make_unique<tandem_forward_plan>();
    made->backend = context->backend;
    made->problem = request.problem;
    if (tandem::api::nothing_to_do(request.problem)) {
      made->json = R"({"reason":"no queries: nothing to do"})";
    } else {
      auto executable = context->backend->prepare_forward(request.problem);
      if (!executable.ok()) return executable.status();
      made->executable = std::move(executable).value();
      made->json = made->executable->describe();
    }
    *plan = made.release();
    return {};
  });
}

void tandem_forward_plan_destroy(tandem_forward_plan* plan) { delete plan; }

size_t tandem_forward_workspace_size(const tandem_forward_plan* plan) {
  return plan == nullptr || plan->executable == nullptr ? 0 : plan->executable->workspace_size();
}

tandem_status tandem_forward_workspace_init(const tandem_forward_plan* plan, void* workspace, size_t workspace_size, void* stream) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return invalid("plan is NULL; make one with tandem_forward_prepare");
    if (plan->executable == nullptr) return {};
    if (Status status = check_workspace(*plan, workspace, workspace_size); !status.ok()) return status;
    return plan->executable->init_workspace({workspace, workspace_size}, stream);
  });
}

tandem_status tandem_forward_run(const tandem_forward_plan* plan, const tandem_forward_args* args, void* workspace, size_t workspace_size, void* stream) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return invalid("plan is NULL; make one with tandem_forward_prepare");
    const ForwardRequest* request = nullptr;
    if (Status status = tandem::api::validate_run(args, request); !status.ok()) return status;
    if (request->problem != plan->problem)
      return invalid(fmt::format("args describe {}; this plan was prepared for {}", tandem::describe(request->problem), tandem::describe(plan->problem)));
    if (plan->executable == nullptr) return {};
    if (Status status = check_workspace(*plan, workspace, workspace_size); !status.ok()) return status;
    return plan->executable->run(request->call, {workspace, workspace_size}, stream);
  });
}

const char* tandem_forward_plan_json(const tandem_forward_plan* plan) { return plan == nullptr ? "" : plan->json.c_str(); }

}  // extern "C"
