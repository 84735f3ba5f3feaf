// This process as one of several that train together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "collective/peers.h"
#include "collective/together.h"
#include "config/config.h"
#include "plan/machine.h"

namespace plimsoll {

// E-RANK-COMMAND (exit 2) in a process that was started as one of several, for commands that one process runs alone.
void refuse_ranks(std::string_view command);
// E-RANK-DEVICE (exit 2) for a training of several ranks on a device other than the processor.
void require_processors(const Config& config);

// The other ranks of this process.
class Ranks {
 public:
  // Joins the other ranks, if this process was started as one of several, and waits for them. Takes a share of the host for this
  // one. All ranks but the first print nothing from here on. E-RANK-LAUNCH (exit 2) if Open MPI takes them for single processes,
  // E-RANK-MPI (exit 2) if the module cannot be loaded.
  static Ranks join();

  // Null in a process that was started alone.
  Peers* peers() const { return peers_.get(); }
  bool first() const { return peers_ == nullptr || peers_->rank() == 0; }
  // True for the first rank of each host.
  bool first_of_host() const { return first_of_host_; }
  // The most memory of messages in one of the ranks.
  Bytes memory() const { return memory_; }

  // E-RANK-MISMATCH (exit 2) on all ranks if they differ in build, libraries, instruction set, threads, or configuration. From
  // here on, a rank without a heartbeat for parallel.fail_after is lost.
  void compare(const Config& config, const std::string& options) const;
  // Calls require_processors if there are other ranks.
  void check_device(const Config& config) const;
  // Runs the work on the first rank of each host, then on the others there, which find the files that it makes. The first rank of
  // all comes before.
  template <class Work>
  auto in_turn(const Work& work) const {
    std::optional<decltype(work())> result;
    if (peers_ == nullptr) return work();
    for (const int turn : {0, 1, 2}) {
      together(*peers_, kEvent, [&] {
        if (turn == (first() ? 0 : first_of_host_ ? 1 : 2)) result = work();
      });
    }
    return *std::move(result);
  }
  // The link between all ranks; none in a process that was started alone.
  std::optional<RankLink> measure_link() const;
  // Ends all ranks with this error. The first rank reports it; the second one if the first is lost.
  void tell(const Error& error) const;
  // The text of the first rank on all.
  std::string of_first(std::string text) const;
  // E-RANK-FOLDER (exit 2) if a rank does not see the file that the first one writes into the folder.
  void check_folder(const std::string& folder) const;

 private:
  static constexpr std::uint32_t kEvent = 0;  // the program of a training takes events later

  void share_host();
  void measure(Bytes before);

  std::unique_ptr<Peers> peers_;
  bool first_of_host_ = true;
  Bytes memory_;
};

// Runs the work of a rank. An error ends all ranks with it.
template <class Work>
int as_rank(const Ranks& ranks, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    ranks.tell(error);
    throw;
  } catch (const std::exception& error) {
    ranks.tell(internal_error("plimsoll", error.what()));
    throw;
  }
}

}  // namespace plimsoll
