#include "cli/environment.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "cli/say.h"
#include "device/cpu/instruction_set.h"
#include "formats/file.h"
#include "formats/own_folder.h"
#include "formats/temporary_folder.h"

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

std::filesystem::path temporary_folder() {
  std::error_code none;  // TMPDIR may name a missing folder
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  return none ? std::filesystem::path("/tmp") : folder;
}

std::filesystem::path named_cache_folder() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return std::filesystem::path(cache) / "plimsoll";
  if (const std::string home = variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".cache" / "plimsoll";
  return temporary_folder() / "plimsoll-cache";
}

int columns_of(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void hold_standard_streams() {
  // open() takes the lowest free descriptor, so in ascending order it fills the gap that was found.
  for (const auto& [fd, flags] : {std::pair{STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int held = ::open("/dev/null", flags);
  }
}

void prepare_environment(char** argv) {
  if (std::getenv(kMark) != nullptr) return;
  for (const auto& [name, value] : kSettings) setenv(name, value, 1);
  execv("/proc/self/exe", argv);
  // A process that cannot start itself again continues with the defaults of the libraries.
}

void limit_kernels() {
  if (const std::string most = variable("PLIMSOLL_MAX_ISA"); !most.empty()) cpu::limit_instruction_set(most);
}

std::filesystem::path cache_folder() {
  static std::optional<TemporaryFolder> own;
  static const std::filesystem::path folder = [] {
    const std::filesystem::path named = named_cache_folder();
    if (!is_there(named) || is_own_folder(named)) return named;
    own.emplace(temporary_folder());
    say_line(
        fmt::format("note: {} belongs to another user, or others may write into it: nothing is read or kept there "
                    "(XDG_CACHE_HOME names another folder)",
                    named.string()));
    return own->path();
  }();
  return folder;
}

std::string environment_variable(const char* name) { return variable(name); }

bool live_terminal() { return isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb"; }
int terminal_columns() { return columns_of(STDERR_FILENO); }
int output_columns() { return columns_of(STDOUT_FILENO); }

bool colour_allowed() { return live_terminal() && variable("NO_COLOR").empty(); }
bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool colour_allowed_in_output() { return output_is_terminal() && variable("TERM") != "dumb" && variable("NO_COLOR").empty(); }

}  // namespace plimsoll
