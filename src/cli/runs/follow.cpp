#include "cli/runs/follow.h"

#include <chrono>
#include <thread>

namespace plimsoll {

Run follow_run(const std::filesystem::path& folder, double seconds, const std::function<void(const Run&)>& look) {
  const std::chrono::duration<double> pause(seconds);
  for (;; std::this_thread::sleep_for(pause)) {
    Run run = read_run(folder);
    if (run.status.empty()) {
      if (!is_held(folder, 0)) open_run_records(folder);
      continue;
    }
    look(run);
    if (run.status == "done" || run.status == "failed") return run;
  }
}

}  // namespace plimsoll
