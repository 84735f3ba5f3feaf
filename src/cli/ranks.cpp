#include "cli/ranks.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/spelling.h"
#include "collective/broadcast.h"
#include "collective/gather.h"
#include "collective/launcher.h"
#include "collective/mpi_backend.h"
#include "device/machine_facts.h"
#include "device/process_memory.h"
#include "formats/atomic_file.h"
#include "measure/measure_rank_link.h"

namespace plimsoll {
namespace {

constexpr std::size_t kText = 96;
using Text = std::array<char, kText>;

std::optional<Launched> launched() { return find_launcher(environment_variable); }

Error not_joined(const Launched& launched, const std::string& message) {
  return {ErrorKind::user,
          ExitCode::configuration,
          "E-RANK-LAUNCH",
          launched.by,
          message,
          "processes that Open MPI knows to belong together",
          {"plimsoll launch -n N train CONFIG", "mpirun of Open MPI, or srun --mpi=pmix"}};
}

// The fields that all ranks share, in the order of their comparison.
struct Facts {
  Text build, libraries, instruction_set, threads, configuration;
};
struct Compared {
  const char* name;
  Text Facts::*field;
  const char* remedy;
};
constexpr std::array<Compared, 5> kCompared{
    {{"build", &Facts::build, "the same program on every host"},
     {"libraries", &Facts::libraries,
      "the same versions of the libraries on every host: scripts/package puts them beside the program"},
     {"instruction set", &Facts::instruction_set, "PLIMSOLL_MAX_ISA=avx2 on every host"},
     {"threads", &Facts::threads, ""},
     {"configuration", &Facts::configuration, "the same CONFIG and the same options for every rank"}}};

}  // namespace

void refuse_ranks(std::string_view command) {
  const std::optional<Launched> by = launched();
  if (!by) return;
  throw config_error("E-RANK-COMMAND", std::string(command),
                     fmt::format("it was started by {} as one of {} processes, and each would do the same", by->by,
                                 by->count > 0 ? std::to_string(by->count) : "several"),
                     "`train` or `machine`, or this command alone", {fmt::format("plimsoll {}", command)});
}

void require_processors(const Config& config) {
  if (config.device == DeviceChoice::cpu) return;
  throw config_error("E-RANK-DEVICE", "machine.device", "several ranks train on processors alone", "--device cpu",
                     {Change("machine.device", "cpu")});
}

Ranks Ranks::join() {
  Ranks ranks;
  const std::optional<Launched> by = launched();
  if (!by) return ranks;
  if (!by->joins) {
    throw not_joined(*by, fmt::format("it started {} processes, and Open MPI takes each of them for a single one", by->count));
  }
  const Bytes before = counted_resident();
  ranks.peers_ = load_mpi().join();
  Peers& peers = *ranks.peers_;
  if (peers.count() == 1) {
    if (by->count != 0) {
      throw not_joined(*by, fmt::format("it started {} processes, and Open MPI takes this one for a single one", by->count));
    }
    ranks.peers_.reset();
    return ranks;
  }
  if (peers.rank() != 0) keep_silent();
  spell_for_ranks(peers.count());
  peers.limit(static_cast<double>(ParallelSettings{}.fail_after), /*patient=*/true);
  peers.reserve(kEvent + 1, 2 * static_cast<std::size_t>(peers.count() - 1));
  ranks.measure(before);
  ranks.share_host();
  return ranks;
}

// Messages of the usual size in both directions make MPI take all its memory.
void Ranks::measure(Bytes before) {
  constexpr std::size_t kMessage = 1 << 20;
  constexpr Bytes kMargin{3 << 20};  // code that later messages run
  {
    Gather gather(*peers_, kEvent, kMessage);
    for (int i = 0; i < 3; ++i) gather.run();
  }
  const Bytes taken = counted_resident() - before;
  for (const Bytes each : gather(*peers_, kEvent, taken)) memory_ = std::max(memory_, each);
  memory_ = align_up(memory_ + kMargin, kMiB * 4);
}

// Ranks that may run on the same cores share them. Each gets the same number, since all have the same number of threads.
void Ranks::share_host() {
  struct Record {
    Text host;
    cpu_set_t cores;
    Bytes memory;
  };
  Record mine{fixed_text<kText>(peers_->host(peers_->rank())), {}, available_memory().bytes};
  ::sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  HostShare share;
  const auto all = gather(*peers_, kEvent, mine);
  for (int rank = 0; rank < peers_->count(); ++rank) {
    const Record& of = all[static_cast<std::size_t>(rank)];
    cpu_set_t cores = of.cores;
    int here = 0;
    Bytes memory = of.memory;
    for (const Record& other : all) {
      if (other.host != of.host) continue;
      ++here;
      CPU_OR(&cores, &cores, &other.cores);
      memory = std::min(memory, other.memory);
    }
    const int most = std::max(1, CPU_COUNT(&cores) / here);
    if (rank == 0 || most < share.cores) share.cores = most;
    if (rank == 0 || memory.n / here < share.memory.n) share.memory = Bytes{memory.n / here}, share.ranks = here;
    if (rank < peers_->rank() && of.host == mine.host) first_of_host_ = false;
  }
  plimsoll::share_host(share);
}

void Ranks::tell(const Error& error) const {
  if (peers_ == nullptr) return;
  const bool first_is_lost = error.code == "E-RANK-LOST" && (error.where == "rank 0" || error.where.ends_with("(rank 0)"));
  if (first_is_lost && peers_->rank() == 1) keep_silent(false);
  peers_->fail(error);
}

void Ranks::compare(const Config& config, const std::string& options) const {
  if (peers_ == nullptr) return;
  peers_->limit(static_cast<double>(config.parallel.fail_after), /*patient=*/true);
  const MachineFacts facts = machine_facts(config.threads);
  std::string libraries;
  for (const std::string& library : facts.libraries) libraries += (libraries.empty() ? "" : ", ") + library;
  Hasher hasher;
  hasher.add(config_hash(config));
  hasher.add(options);
  const Facts mine{fixed_text<kText>(facts.build), fixed_text<kText>(libraries), fixed_text<kText>(facts.instruction_set),
                   fixed_text<kText>(std::to_string(facts.threads)), fixed_text<kText>(hasher.hex())};
  const auto all = gather(*peers_, kEvent, mine);
  for (const Compared& each : kCompared) {
    const Text& first = all[0].*each.field;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const Text& other = all[rank].*each.field;
      if (other == first) continue;
      Remedies remedies;
      if (each.field == &Facts::threads) {
        remedies.emplace_back(Change("machine.threads", std::min(std::atoi(first.data()), std::atoi(other.data()))));
      }
      throw config_error("E-RANK-MISMATCH", each.name,
                         fmt::format("rank 0 on {} has {}, rank {} on {} has {}", peers_->host(0), first.data(), rank,
                                     peers_->host(static_cast<int>(rank)), other.data()),
                         remedies.empty() ? each.remedy : "the same number of threads for every rank", std::move(remedies));
    }
  }
}

std::optional<RankLink> Ranks::measure_link() const {
  return peers_ == nullptr ? std::nullopt : std::optional(measure_rank_link(*peers_, kEvent));
}

void Ranks::check_device(const Config& config) const {
  if (peers_ != nullptr) require_processors(config);
}

std::string Ranks::of_first(std::string text) const {
  return peers_ == nullptr ? text : broadcast(*peers_, kEvent, 0, std::move(text));
}

void Ranks::check_folder(const std::string& folder) const {
  if (peers_ == nullptr) return;
  const std::filesystem::path mark = std::filesystem::path(folder) / ".ranks";
  std::string text;
  if (first()) {
    text = fmt::format("{} {}", peers_->host(0), ::getpid());
    write_file_atomically(mark, text);
  }
  text = of_first(std::move(text));
  std::string seen;
  std::ifstream file(mark);
  std::getline(file, seen);
  file.close();
  const std::vector<char> same = gather(*peers_, kEvent, static_cast<char>(seen == text));
  std::error_code ignored;
  if (first()) std::filesystem::remove(mark, ignored);
  for (int rank = 0; rank < peers_->count(); ++rank) {
    if (same[static_cast<std::size_t>(rank)] != 0) continue;
    throw config_error(
        "E-RANK-FOLDER", folder,
        fmt::format("rank {} on {} does not see it; rank 0 on {} writes it", rank, peers_->host(rank), peers_->host(0)),
        "a folder on a file system that all hosts share", {Change("command.run", "DIR")});
  }
}

}  // namespace plimsoll
