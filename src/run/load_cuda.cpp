#include <dlfcn.h>

#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "interface_id.h"
#include "run/cuda_backend.h"

namespace plimsoll {
namespace {

constexpr const char* kModule = "plimsoll_cuda.so";

Error cannot_load(const std::filesystem::path& module, const std::string& why, std::string expected, Remedies remedies) {
  return {ErrorKind::environment, ExitCode::configuration, "E-CUDA-LOAD", module.string(), why,
          std::move(expected),    std::move(remedies)};
}

std::filesystem::path beside_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / kModule;
}

const CudaBackend& load() {
  const std::filesystem::path module = beside_program();
  std::error_code error;
  if (!std::filesystem::exists(module, error)) {
    throw cannot_load(module, "there is no such file: this build has no CUDA",
                      "a build on a machine with nvcc 13, or a package with CUDA",
                      {"cmake -D PLIMSOLL_CUDA=on build/release && scripts/build",
                       Remedy::of_command("train CONFIG", {{"machine.device", "cpu"}})});
  }
  void* const handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw cannot_load(module, dlerror(), "the libraries of CUDA 13 (libcublasLt.so.13), of a toolkit or of PyTorch's packages",
                      {"LD_LIBRARY_PATH=/usr/local/cuda/lib64 plimsoll ...",
                       "LD_LIBRARY_PATH=VENV/lib/python3.X/site-packages/nvidia/cu13/lib plimsoll ..."});
  }
  using Get = const CudaBackend* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(handle, kCudaBackendSymbol));
  if (get == nullptr || std::string_view(get()->interface) != PLIMSOLL_INTERFACE) {
    throw cannot_load(module, "it is of another build", "the module that was built with this program", {"scripts/build"});
  }
  return *get();
}

}  // namespace

const CudaBackend& load_cuda() {
  static const CudaBackend& backend = load();
  return backend;
}

}  // namespace plimsoll
