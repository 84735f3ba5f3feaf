#include "records/environment_record.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "commit.h"
#include "device/machine_facts.h"

namespace plimsoll {
namespace {

std::string system_text() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {} {}", names.sysname, names.release, names.machine) : std::string();
}

}  // namespace

nlohmann::json environment_record(const std::vector<std::string>& libraries) {
  constexpr std::string_view kCommit = PLIMSOLL_COMMIT;
  return {{"version", PLIMSOLL_VERSION},
          {"commit", kCommit.empty() ? nlohmann::json() : nlohmann::json(kCommit)},
          {"system", system_text()},
          {"processor", machine_facts(1).processor},
          {"libraries", libraries}};
}

std::string new_run_id() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof number)) {
    number = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  return fmt::format("{:016x}", number);
}

}  // namespace plimsoll
