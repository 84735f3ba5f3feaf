#include "cli/environment.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "device/cpu/instruction_set.h"

namespace plimsoll {
namespace {

constexpr const char* kMark = "PLIMSOLL_ENVIRONMENT";
constexpr std::array<std::pair<const char*, const char*>, 5> kSettings{{{"OMP_WAIT_POLICY", "passive"},
                                                                        {"GOMP_SPINCOUNT", "20000"},
                                                                        {"OMP_DYNAMIC", "false"},
                                                                        {"OMP_STACKSIZE", "2M"},
                                                                        {kMark, "1"}}};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

void hold_standard_streams() {
  // The lowest free descriptor is taken, so the order makes each open() fill the gap that was found.
  for (const auto& [fd, flags] : {std::pair{STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int held = ::open("/dev/null", flags);
  }
}

void prepare_environment(char** argv) {
  if (std::getenv(kMark) != nullptr) return;
  for (const auto& [name, value] : kSettings) setenv(name, value, 1);
  execv("/proc/self/exe", argv);
  // Where a process may not start itself again, it goes on with the defaults of the libraries.
}

void limit_kernels() {
  if (const std::string most = variable("PLIMSOLL_MAX_ISA"); !most.empty()) cpu::limit_instruction_set(most);
}

std::filesystem::path cache_folder() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return std::filesystem::path(cache) / "plimsoll";
  if (const std::string home = variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".cache" / "plimsoll";
  std::error_code none;  // TMPDIR may name no folder
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return (none ? std::filesystem::path("/tmp") : temporary) / "plimsoll-cache";
}

bool live_terminal() { return isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb"; }
int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool colour_allowed() { return live_terminal() && variable("NO_COLOR").empty(); }
bool colour_allowed_in_output() {
  return isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb" && variable("NO_COLOR").empty();
}

}  // namespace plimsoll
