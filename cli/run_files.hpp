// Q, K and V from files, and O and LSE back to files: what the flags of `tandem run` say about them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "call_options.hpp"
#include "reference.hpp"

namespace CLI {
class App;
}

namespace tandem::cli {

struct LoadedInputs {
  AttentionInputs inputs;
  Layout layout = Layout::bshd;
  std::size_t rank = 4;  // axes that the tensors have in their files
};

class InputFiles {
 public:
  void add_to(CLI::App& app);
  LoadedInputs load() const;
  const std::string& layout() const { return layout_; }

 private:
  struct Source {
    std::string label;  // for sentences: "q (tensor 'q' of sample.safetensors)"
    FileTensor tensor;
  };

  std::vector<Source> read() const;
  DataType choose_type(const std::vector<Source>& sources) const;
  void read_extras(AttentionInputs& inputs) const;

  std::vector<std::string> files_;
  std::string q_, k_, v_;
  std::string q_name_ = "q", k_name_ = "k", v_name_ = "v";
  std::string layout_ = "bshd", dtype_;
  CallOptions call_;
  std::optional<float> scale_;
};

struct WrittenFile {
  std::string path;
  std::string what;  // for people: "out, widened to fp32: .npy has no bf16"
};

class OutputFiles {
 public:
  void add_to(CLI::App& app);
  // Fails if the names cannot be written to: before the work, not after it.
  void check() const;
  // Writes what was asked for.
  std::vector<WrittenFile> write(const LoadedInputs& loaded, const HostTensor& out, const std::vector<float>& lse) const;

 private:
  std::string out_, lse_;
};

}  // namespace tandem::cli
