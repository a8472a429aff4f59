# Finds cuda.h and nvrtc.h: needed to build, while the libraries themselves are opened at run time.
# Looked for in CUDAToolkit_ROOT, CUDA_HOME, the virtual environment of the build folder (pip packages), and the usual places.
# Defines the target tandem_cuda_headers.

file(GLOB _tandem_pip_folders
  ${PROJECT_BINARY_DIR}/venv/lib/python3*/site-packages/nvidia/*/include
  ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/*/include)
set(_tandem_hints ${CUDAToolkit_ROOT}/include $ENV{CUDA_HOME}/include ${_tandem_pip_folders} /usr/local/cuda/include)
find_path(TANDEM_CUDA_INCLUDE_DIR cuda.h HINTS ${_tandem_hints})
find_path(TANDEM_NVRTC_INCLUDE_DIR nvrtc.h HINTS ${_tandem_hints})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TandemCudaHeaders REQUIRED_VARS TANDEM_CUDA_INCLUDE_DIR TANDEM_NVRTC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run tools/setup.sh, or set CUDA_HOME to a CUDA toolkit")

if(TandemCudaHeaders_FOUND AND NOT TARGET tandem_cuda_headers)
  add_library(tandem_cuda_headers INTERFACE)
  target_include_directories(tandem_cuda_headers SYSTEM INTERFACE ${TANDEM_CUDA_INCLUDE_DIR} ${TANDEM_NVRTC_INCLUDE_DIR})
endif()
