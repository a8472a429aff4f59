#include "run_files.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <span>
#include <utility>

#include "failure.hpp"
#include "tensor_file.hpp"

namespace tandem::cli {
namespace {

FileTensor lse_to_file(const std::vector<float>& lse, const Shape& out_shape, std::size_t rank) {
  FileTensor file{.type = FileType::fp32, .shape = {out_shape[0], out_shape[2], out_shape[1]}, .data = {}};
  file.shape.erase(file.shape.begin(), file.shape.begin() + static_cast<std::ptrdiff_t>(4 - rank));  // as many axes as q, less one
  const auto bytes = std::as_bytes(std::span(lse));
  file.data.assign(bytes.begin(), bytes.end());
  return file;
}

}  // namespace

std::vector<InputFiles::Source> InputFiles::read() const {
  const auto from_npy = [](const char* name, const std::string& path) { return Source{fmt::format("{} ({})", name, path), read_npy(path)}; };
  const bool named = !q_.empty() || !k_.empty() || !v_.empty();
  if (named && !files_.empty()) fail("FILE and --q, --k, --v were both given; use either");
  if (named && (q_.empty() || k_.empty() || v_.empty())) fail("--{} is missing; --q, --k and --v go together", q_.empty() ? 'q' : k_.empty() ? 'k' : 'v');
  std::vector<std::string> files = named ? std::vector{q_, k_, v_} : files_;
  if (files.size() == 1 && format_of(files[0]) == FileFormat::safetensors) {
    std::vector<Source> sources;
    for (const auto& [role, name] : {std::pair("q", q_name_), std::pair("k", k_name_), std::pair("v", v_name_)})
      sources.push_back({fmt::format("{} (tensor '{}' of {})", role, name, files[0]), read_safetensors(files[0], name)});
    return sources;
  }
  if (files.size() != 3) fail("FILE was given {} times; pass one .safetensors file with q, k and v, or three .npy files in that order", files.size());
  for (const std::string& file : files)
    if (format_of(file) != FileFormat::npy) fail("{}: of three files each must be .npy; a .safetensors file holds q, k and v together", file);
  return {from_npy("q", files[0]), from_npy("k", files[1]), from_npy("v", files[2])};
}

// The dtype of the call: as asked for, else that of the files.
DataType InputFiles::choose_type(const std::vector<Source>& sources) const {
  for (const Source& source : sources)
    if (source.tensor.type == FileType::int32 || source.tensor.type == FileType::int64)
      fail("{} holds {} ('<i4' or '<i8' of .npy, I32 or I64 of .safetensors); Q, K and V must be fp16, bf16, fp32 or fp64", source.label,
           name_of(source.tensor.type));
  if (!dtype_.empty()) {
    const DataType type = parse_data_type(dtype_);
    for (const Source& source : sources)
      if (source.tensor.type == FileType::raw16 && type != DataType::bf16)
        fail("{} holds 16-bit words, which can only be taken as bfloat16; pass --dtype bf16", source.label);
    return type;
  }
  std::optional<DataType> type;
  for (const Source& source : sources) {
    const std::optional<DataType> own = natural_type(source.tensor.type);
    if (!own) fail("{} holds 16-bit words; pass --dtype bf16 if they are bfloat16", source.label);
    if (type && own != type)
      fail("{} is {} and {} is {}; pass --dtype to convert them to one", sources[0].label, name_of(sources[0].tensor.type), source.label,
           name_of(source.tensor.type));
    type = own;
  }
  return *type;
}

// Lengths and sinks that stand in the .safetensors file beside Q, K and V.
void InputFiles::read_extras(AttentionInputs& inputs) const {
  if (files_.size() != 1) return;
  const std::string& file = files_.front();
  const std::pair<const char*, std::optional<Lengths>*> arrays[] = {
      {"cu_seqlens_q", &inputs.cu_seqlens_q}, {"cu_seqlens_k", &inputs.cu_seqlens_k}, {"seqused_q", &inputs.seqused_q}, {"seqused_k", &inputs.seqused_k}};
  for (const auto& [name, place] : arrays)
    if (const auto tensor = find_safetensors(file, name)) *place = lengths_of(fmt::format("{} ({})", name, file), *tensor);
  if (const auto tensor = find_safetensors(file, "sinks")) inputs.sinks = floats_of(fmt::format("sinks ({})", file), *tensor);
}

LoadedInputs InputFiles::load() const {
  std::vector<Source> sources = read();
  const DataType type = choose_type(sources);
  LoadedInputs loaded;
  loaded.layout = layout_ == "bhsd" ? Layout::bhsd : Layout::bshd;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Source& source : sources) shapes.push_back(source.tensor.shape);
  AttentionInputs& inputs = loaded.inputs;
  inputs.q = from_file(sources[0].label, std::move(sources[0].tensor), loaded.layout, type);
  inputs.k = from_file(sources[1].label, std::move(sources[1].tensor), loaded.layout, type);
  inputs.v = from_file(sources[2].label, std::move(sources[2].tensor), loaded.layout, type);
  loaded.rank = shapes[0].size();
  inputs.scale = scale_.value_or(inputs.q.shape[3] > 0 ? 1.0f / std::sqrt(static_cast<float>(inputs.q.shape[3])) : 1.0f);
  read_extras(inputs);
  apply(call_, inputs);
  // Packed tensors have no batch axis; where only one side is packed, the other may have one.
  const bool mixed = inputs.cu_seqlens_q.has_value() != inputs.cu_seqlens_k.has_value();
  for (const auto& [one, other] : {std::pair<std::size_t, std::size_t>{0, 1}, {0, 2}, {1, 2}})
    if (shapes[one].size() != shapes[other].size() && !(mixed && one == 0))
      fail("{} has shape {} and {} has {}; they must have the same number of axes", sources[one].label, shape_text(shapes[one]), sources[other].label,
           shape_text(shapes[other]));
  check_lengths(inputs);
  return loaded;
}

void InputFiles::add_to(CLI::App& app) {
  app.add_option("files", files_, "one .safetensors file with q, k and v, or three .npy files in that order")->type_name("FILE");
  app.add_option("--q", q_, ".npy file of Q")->type_name("FILE");
  app.add_option("--k", k_, ".npy file of K")->type_name("FILE");
  app.add_option("--v", v_, ".npy file of V")->type_name("FILE");
  app.add_option("--q-name", q_name_, "name of Q in the .safetensors file")->capture_default_str();
  app.add_option("--k-name", k_name_, "name of K")->capture_default_str();
  app.add_option("--v-name", v_name_, "name of V")->capture_default_str();
  app.add_option("--layout", layout_, "order of the axes: bshd (batch, seqlen, heads, dim) or bhsd; 3 axes: one batch entry, 2: one head")
      ->check(CLI::IsMember({"bshd", "bhsd"}))
      ->capture_default_str();
  app.add_option("--dtype", dtype_, "convert to fp16, bf16 or fp32 before the call; 16-bit words need bf16. Default: that of the files")
      ->check(CLI::IsMember({"fp16", "bf16", "fp32"}));
  app.add_option("--scale", scale_, "softmax scale; default: 1/sqrt(head_dim)");
  call_.add_to(app, "Masks and lengths (a .safetensors file may hold cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, sinks; an option goes before it)");
}

void OutputFiles::check() const {
  for (const std::string& path : {out_, lse_})
    if (!path.empty()) format_of(path);
  if (!out_.empty() && out_ == lse_ && format_of(out_) == FileFormat::npy)
    fail("--out and --lse are both {}; a .npy file holds one tensor: use two files, or one .safetensors file", out_);
}

std::vector<WrittenFile> OutputFiles::write(const LoadedInputs& loaded, const HostTensor& out, const std::vector<float>& lse) const {
  NamedTensor out_tensor{"out", out_.empty() ? FileTensor{} : to_file(out, loaded.layout, loaded.rank)};
  NamedTensor lse_tensor{"lse", lse_.empty() ? FileTensor{} : lse_to_file(lse, out.shape, loaded.rank)};
  if (!out_.empty() && out_ == lse_) {
    write_tensors(out_, {std::move(out_tensor), std::move(lse_tensor)});
    return {{out_, "out, lse"}};
  }
  std::vector<WrittenFile> written;
  if (!out_.empty()) {
    const bool widened = out.type == DataType::bf16 && format_of(out_) == FileFormat::npy;
    write_tensors(out_, {std::move(out_tensor)});
    written.push_back({out_, widened ? "out, widened to fp32: .npy has no bf16" : "out"});
  }
  if (!lse_.empty()) {
    write_tensors(lse_, {std::move(lse_tensor)});
    written.push_back({lse_, "lse"});
  }
  return written;
}

void OutputFiles::add_to(CLI::App& app) {
  app.add_option("--out", out_, "write O (.npy or .safetensors), with the axes of q")->type_name("FILE");
  app.add_option("--lse", lse_, "write the log-sum-exp, fp32, (batch, heads, seqlen); may be the .safetensors file of --out")->type_name("FILE");
}

}  // namespace tandem::cli
