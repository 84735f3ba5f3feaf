#include "session/session_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "collective/broadcast.h"
#include "device/process_memory.h"
#include "prepare/rank_plans.h"

namespace plimsoll {

std::variant<Prepared, Refused> SessionRanks::prepare(const Config& config, PrepareOptions options, bool first_of_host,
                                                      const Say& say) const {
  if (alone()) return prepare_training(config, options, say);
  options.share = share();
  std::string text = first() ? preparation(config, options, say) : std::string();
  const std::string common = broadcast(*peers_, event_, 0, first() ? preparation_for_others(text) : std::string());
  if (common.empty()) return first() ? read_preparation(config, options, text) : Refused{};
  for (const bool hosts : {true, false}) {
    together([&] {
      if (!first() && first_of_host == hosts) text = preparation_of_rank(config, options, common);
    });
  }
  return read_preparation(config, options, text);
}

void SessionRanks::reserve(const Program& program, double seconds) {
  if (alone()) return;
  const ExchangeDemand demand = exchange_demand(program, peers_->count());
  peers_->reserve(std::max(demand.events, std::uint32_t{1}),
                  std::max(demand.parts, 2 * static_cast<std::size_t>(peers_->count() - 1)));
  event_ = std::max(demand.events, std::uint32_t{1}) - 1;
  seconds_ = seconds;
  sent_ = peers_->sent();
  peers_->limit(seconds, /*patient=*/false);
}

void SessionRanks::together(const std::function<void()>& work) const {
  alone() ? work() : plimsoll::together(*peers_, event_, work);
}

void SessionRanks::on_first(const std::function<void()>& work) const {
  if (alone()) return work();
  const auto run = [&] {
    if (!first()) return serve();
    try {
      work();
    } catch (...) {
      end();
      throw;
    }
    end();
  };
  patiently([&] { plimsoll::together(*peers_, event_, run); });
}

void SessionRanks::serve() const {
  if (executor_ != nullptr) executor_->serve_reads();
}

void SessionRanks::end() const {
  if (executor_ != nullptr) executor_->end_reads();
}

void SessionRanks::patiently(const std::function<void()>& work) const {
  if (alone()) return work();
  peers_->limit(seconds_, /*patient=*/true);
  try {
    work();
  } catch (...) {
    peers_->limit(seconds_, /*patient=*/false);
    throw;
  }
  peers_->limit(seconds_, /*patient=*/false);
}

SessionRanks::State SessionRanks::agree(const State& mine) {
  if (alone()) return mine;
  struct Record {
    std::array<char, 16> stopped_by;
    std::int64_t process_hwm;
    bool saves, failed;
  };
  static_assert(sizeof(Record) == kRankStateBytes);
  const std::vector<Record> all =
      gather(*peers_, event_, Record{fixed_text<16>(mine.stopped_by), mine.process_hwm.n, mine.saves, mine.failed});
  State agreed{.saves = all.front().saves};
  for (const Record& each : all) {
    if (agreed.stopped_by.empty()) agreed.stopped_by = each.stopped_by.data();
    agreed.failed = agreed.failed || each.failed;
    agreed.process_hwm = std::max(agreed.process_hwm, Bytes{each.process_hwm});
  }
  return agreed;
}

bool SessionRanks::any(bool here) const {
  if (alone()) return here;
  const std::vector<char> all = gather(*peers_, event_, static_cast<char>(here));
  return std::ranges::find(all, 1) != all.end();
}

std::vector<RankReport> SessionRanks::reports(Bytes arena) const {
  if (alone()) return {};
  struct Record {
    std::int64_t pid, process_hwm, arena, sent;
  };
  std::vector<RankReport> reports;
  const Record mine{::getpid(), peak_resident().n, arena.n, (peers_->sent() - sent_).n};
  for (const Record& each : gather(*peers_, event_, mine)) {
    const auto rank = static_cast<int>(reports.size());
    reports.push_back({rank, peers_->host(rank), each.pid, Bytes{each.process_hwm}, Bytes{each.arena}, Bytes{each.sent}});
  }
  return reports;
}

}  // namespace plimsoll
