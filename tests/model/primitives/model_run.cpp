#include <algorithm>
#include <stdexcept>

#include "machine/launch.hpp"
#include "machine/tensor_map.hpp"
#include "model/primitives/host.hpp"

namespace tandem::primitives {

void wgmma_fp16(const void* params);
void wgmma_bf16(const void* params);
void moves(const void* params);
void arithmetic(const void* params);
void multicast_pair(const void* params);

namespace {

TensorMap encode(const TensorMapRequest& request) {
  model::DecodedMap map;
  map.base = static_cast<const unsigned char*>(request.base);
  map.rank = 4;
  map.element_bytes = 2;
  map.swizzle = model::swizzle_of(request.swizzle_bytes);
  map.stride_bytes[0] = 2;
  for (std::size_t i = 0; i < 4; ++i) {
    map.extent[i] = request.extent[i];
    map.box[i] = request.box[i];
    if (i > 0) map.stride_bytes[i] = request.stride_bytes[i - 1];
  }
  return model::encode(map);
}

model::GlobalTensor flat(const char* name, const void* data, std::size_t bytes, model::GlobalAccess access) {
  model::GlobalTensor tensor;
  tensor.name = name;
  tensor.data = const_cast<void*>(data);
  tensor.row_bytes = static_cast<std::int64_t>(bytes);
  tensor.access = access;
  return tensor;
}

}  // namespace

Outputs run_in_model(Kernel kernel, const Inputs& inputs, std::uint64_t seed) {
  using model::GlobalAccess;
  using Kind = model::SharedField::Kind;
  constexpr void (*kEntries[])(const void*) = {wgmma_fp16, wgmma_bf16, moves, arithmetic, multicast_pair};
  const bool multiplies = kernel == Kernel::wgmma_fp16 || kernel == Kernel::wgmma_bf16;

  model::KernelImage image;
  image.name = name_of(kernel);
  image.entry = kEntries[static_cast<int>(kernel)];
  image.threads = 128;
  image.cluster = blocks_of(kernel);
  image.shared_bytes = static_cast<std::uint32_t>(shared_bytes(kernel));
  constexpr std::uint32_t kB = kM * 128, kBn = kB + kMaxN * 128, kB16 = kBn + kMaxN / 64 * kK * 128, kB32 = kB16 + kMaxN * kNarrow * 2,
                          kEnd = kB32 + kMaxN * kHalf * 2;
  if (multiplies)
    image.shared = model::SharedLayout({{"a", 0, kB},
                                        {"b_k", kB, kBn - kB},
                                        {"b_n", kBn, kB16 - kBn},
                                        {"b_16", kB16, kB32 - kB16},
                                        {"b_32", kB32, kEnd - kB32},
                                        {"full", kEnd, 8, Kind::barrier}});
  else
    image.shared = model::SharedLayout({{"box", 0, kBoxRows * 128}, {"full", kBoxRows * 128, 8, Kind::barrier}});

  Outputs outputs;
  outputs.out.assign(static_cast<std::size_t>(out_words(kernel)), 0);
  outputs.stored.assign(kernel == Kernel::moves ? odd_elements() : 0, 0xffff);
  const Maps maps = make_maps(kernel, inputs.a.data(), inputs.b_k.data(), inputs.b_n.data(), inputs.odd.data(), outputs.stored.data());
  const Params params{encode(maps.a),      encode(maps.b_k),     encode(maps.b_n),  encode(maps.b_16),
                      encode(maps.b_32),   encode(maps.odd),     encode(maps.flat), {encode(maps.narrow[0]), encode(maps.narrow[1]), encode(maps.narrow[2])},
                      encode(maps.stored), inputs.floats.data(), outputs.out.data()};
  static_assert(kNarrowBoxCount == 3);

  model::GlobalMemory memory;
  const auto add = [&](const char* name, const auto& values, GlobalAccess access) {
    if (!values.empty()) memory.add(flat(name, values.data(), values.size() * sizeof values[0], access));
  };
  add("a", inputs.a, GlobalAccess::read_only);
  add("b_k", inputs.b_k, GlobalAccess::read_only);
  add("b_n", inputs.b_n, GlobalAccess::read_only);
  add("odd", inputs.odd, GlobalAccess::read_only);
  add("floats", inputs.floats, GlobalAccess::read_only);
  add("stored", outputs.stored, GlobalAccess::read_write);
  add("out", outputs.out, GlobalAccess::write_once);

  model::LaunchConfig config;
  config.grid = blocks_of(kernel);
  config.params = &params;
  config.params_bytes = sizeof params;
  config.memory = &memory;
  config.seed = seed;
  const model::LaunchReport report = model::launch(image, config);
  if (!report.ok()) throw std::runtime_error(report.diagnosis->text());
  return outputs;
}

}  // namespace tandem::primitives
