// The primitive tests on a GPU: the kernels are compiled by NVRTC as the library's own are.
#include <array>

#include "cuda/device.hpp"
#include "cuda/tensor_map.hpp"
#include "gpu/cuda_device.hpp"
#include "jit/compiler.hpp"
#include "model/primitives/primitives_source.hpp"
#include "model/primitives/primitives_tests.hpp"

namespace tandem::primitives {
namespace {

std::string unavailable() {
  const auto driver = cuda::driver();
  if (!driver.ok()) return driver.status().message();
  const auto device = cuda::device_properties(0);
  if (!device.ok()) return device.status().message();
  return device.value().compute_major == 9 ? "" : "the primitives are for compute capability 9.0";
}

void expect(CUresult result, const char* call) { ASSERT_EQ(result, CUDA_SUCCESS) << call; }

// One library with all entry points, loaded once.
CUlibrary library(const testing::CudaSession& session) {
  static const CUlibrary loaded = [&] {
    CUlibrary made = nullptr;
    const auto compiled = jit::compile(std::string(kPrimitivesSource), "primitives");
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    if (compiled.ok())
      expect(session.driver->library_load_data(&made, compiled.value().cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
    return made;
  }();
  return loaded;
}

template <class T>
class OnDevice {
 public:
  OnDevice(testing::TestDevice& device, const std::vector<T>& values) : device_(device), buffer_(device, std::max<std::size_t>(values.size() * sizeof(T), 16)) {
    if (!values.empty()) device.upload(buffer_.data(), values.data(), values.size() * sizeof(T));
  }
  T* data() const { return static_cast<T*>(buffer_.data()); }
  void fetch(std::vector<T>& values) const {
    if (!values.empty()) device_.download(values.data(), buffer_.data(), values.size() * sizeof(T));
  }

 private:
  testing::TestDevice& device_;
  testing::DeviceBuffer buffer_;
};

Outputs run_on_gpu(Kernel kernel, const Inputs& inputs) {
  const testing::CudaSession session = testing::cuda_session();
  const auto device = testing::make_cuda_device();
  const cuda::Driver& driver = *session.driver;
  const cuda::ContextScope scope(driver, session.context);

  Outputs outputs;
  outputs.out.assign(static_cast<std::size_t>(out_words(kernel)), 0);
  outputs.stored.assign(kernel == Kernel::moves ? odd_elements() : 0, 0xffff);
  {
    const OnDevice a(*device, inputs.a), b_k(*device, inputs.b_k), b_n(*device, inputs.b_n), odd(*device, inputs.odd), stored(*device, outputs.stored);
    const OnDevice floats(*device, inputs.floats), out(*device, outputs.out);
    const Maps maps = make_maps(kernel, a.data(), b_k.data(), b_n.data(), odd.data(), stored.data());
    Params params{};
    const struct {
      const TensorMapRequest& request;
      TensorMap& map;
    } encodings[] = {{maps.a, params.a_map},
                     {maps.b_k, params.b_k_map},
                     {maps.b_n, params.b_n_map},
                     {maps.b_16, params.b_16_map},
                     {maps.b_32, params.b_32_map},
                     {maps.odd, params.odd_map},
                     {maps.flat, params.flat_map},
                     {maps.stored, params.stored_map},
                     {maps.narrow[0], params.narrow_maps[0]},
                     {maps.narrow[1], params.narrow_maps[1]},
                     {maps.narrow[2], params.narrow_maps[2]}};
    static_assert(kNarrowBoxCount == 3);
    for (const auto& [request, map] : encodings) {
      cuda::EncodedMap encoded;
      const Status status = cuda::encode(driver, request, encoded);
      EXPECT_TRUE(status.ok()) << status.message();
      map = encoded.map;
    }
    params.floats = floats.data();
    params.out = out.data();

    CUkernel entry = nullptr;
    CUfunction function = nullptr;
    expect(driver.library_get_kernel(&entry, library(session), fmt::format("primitives_{}", name_of(kernel)).c_str()), "cuLibraryGetKernel");
    expect(driver.kernel_get_function(&function, entry), "cuKernelGetFunction");
    expect(driver.func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes(kernel)), "cuFuncSetAttribute");
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {static_cast<unsigned>(blocks_of(kernel)), 1, 1};
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(blocks_of(kernel));
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(shared_bytes(kernel));
    config.hStream = static_cast<CUstream>(device->stream());
    config.attrs = &cluster;
    config.numAttrs = blocks_of(kernel) > 1 ? 1 : 0;
    void* arguments[] = {&params};
    expect(driver.launch_kernel_ex(&config, function, arguments, nullptr), "cuLaunchKernelEx");
    device->synchronize();
    out.fetch(outputs.out);
    stored.fetch(outputs.stored);
  }
  return outputs;
}

INSTANTIATE_TEST_SUITE_P(hopper, Primitives, ::testing::Values(Runner{"hopper", unavailable, run_on_gpu}));

}  // namespace
}  // namespace tandem::primitives
