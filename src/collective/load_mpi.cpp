#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "collective/mpi_backend.h"
#include "interface_id.h"

namespace plimsoll {
namespace {

constexpr const char* kModule = "plimsoll_mpi.so";

Error cannot_load(const std::filesystem::path& module, const std::string& why, std::string expected, Remedies remedies) {
  return {ErrorKind::environment, ExitCode::configuration, "E-RANK-MPI", module.string(), why,
          std::move(expected),    std::move(remedies)};
}

const MpiBackend& load() {
  std::error_code error;
  const std::filesystem::path module = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kModule;
  const Remedy packages("apt-get install libopenmpi-dev openmpi-bin && scripts/build");
  if (!std::filesystem::exists(module, error)) {
    throw cannot_load(module, "there is no such file: this build has no MPI", "a build on a machine with Open MPI", {packages});
  }
  // Open MPI opens its own modules, which look for its symbols among the global ones.
  void* const handle = dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == nullptr) throw cannot_load(module, dlerror(), "the libraries of Open MPI 4.1", {packages});
  using Get = const MpiBackend* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(handle, kMpiBackendSymbol));
  if (get == nullptr || std::string_view(get()->interface) != PLIMSOLL_INTERFACE) {
    throw cannot_load(module, "it is of another build", "the module that was built with this program", {"scripts/build"});
  }
  return *get();
}

}  // namespace

const MpiBackend& load_mpi() {
  static const MpiBackend& backend = load();
  return backend;
}

}  // namespace plimsoll
