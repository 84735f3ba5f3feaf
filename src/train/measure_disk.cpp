#include "train/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "device/arena.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/disk/page_file.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "plan/passes/paging.h"
#include "train/child.h"
#include "train/machine_facts.h"
#include "train/machine_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.disk/4";
constexpr Bytes kLarge{1 << 20}, kSmall{128 << 10};
constexpr int kPages = 96;    // of the file, where the budget has room for so many
constexpr int kInFlight = 4;  // of each way
constexpr int kRounds = 3;
constexpr double kMostRate = 1e12, kMostLatency = 10;

// A file of pages that come in and go out side by side.
class MovingPages {
 public:
  MovingPages(const std::filesystem::path& folder, TransferEngine engine, Bytes page, int pages)
      : page_(page), pages_(pages), file_(folder, sizes(engine), pieces()), memory_(page.n * 2 * kInFlight) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    for (int i = 0; i < pages_; ++i)
      file_.write(page_ * i, page_, [&](std::span<std::byte> part) { std::copy_n(memory_.begin(), part.size(), part.begin()); });
  }

  // Seconds of a page that is read, while as many are written, or none, and `work` is done for each.
  double seconds_of_page(bool alone, int pages, const std::function<void()>& work) {
    const double start = seconds_now();
    for (int i = 0; i < pages; ++i) {
      const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
      if (i >= kInFlight) file_.wait(in);
      if (i >= kInFlight && !alone) file_.wait(out);
      file_.start_read(in, page_ * i, slot(in));
      if (!alone) file_.start_write(out, page_ * (pages_ / 2 + i), slot(out));
      work();
    }
    for (std::uint32_t event = 0; event < (alone ? 1 : 2) * kInFlight; ++event) file_.wait(event);
    return (seconds_now() - start) / pages;
  }

 private:
  PageFile::Sizes sizes(TransferEngine engine) const {
    return {page_ * pages_, kTransfers, kTransferStaging, 2 * kInFlight, engine};
  }
  std::vector<PageFile::Piece> pieces() const {
    std::vector<PageFile::Piece> pieces;
    for (int i = 0; i < pages_; ++i) pieces.push_back({page_ * i, page_});
    return pieces;
  }
  std::span<std::byte> slot(std::uint32_t number) {
    return std::span(memory_).subspan(static_cast<std::size_t>(page_.n * number), static_cast<std::size_t>(page_.n));
  }

  Bytes page_;
  int pages_;
  PageFile file_;
  std::vector<std::byte> memory_;
};

// The best round, as others use the machine too.
double measure_page(const std::filesystem::path& folder, TransferEngine engine, Bytes page, int pages, bool alone) {
  MovingPages moving(folder, engine, page, pages);
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) best = std::min(best, moving.seconds_of_page(alone, pages / 2, [] {}));
  return best;
}

// Matrix products of a few milliseconds on the whole team.
class Products {
 public:
  explicit Products(int threads) : gemm_(kShape, threads), arena_(Bytes{kOperands * 4} + gemm_.plan().scratch) {
    auto* numbers = reinterpret_cast<float*>(arena_.base());
    for (std::int64_t i = 0; i < kOperands; ++i) numbers[i] = 1e-3F * static_cast<float>(i % 7);
  }
  void run(int times) {
    auto* a = reinterpret_cast<float*>(arena_.base());
    float *b = a + kShape.m * kShape.k, *c = b + kShape.k * kShape.n;
    for (int i = 0; i < times; ++i) gemm_.run(a, b, nullptr, c, reinterpret_cast<std::byte*>(a + kOperands));
  }

 private:
  static constexpr cpu::GemmShape kShape{.batch = 1, .m = 512, .n = 768, .k = 768};
  static constexpr std::int64_t kOperands = kShape.m * kShape.k + kShape.k * kShape.n + kShape.m * kShape.n;
  cpu::Gemm gemm_;
  Arena arena_;
};

// What products that take several times as long as the transfers beside them lose for each byte.
double measure_lost_seconds(const std::filesystem::path& folder, TransferEngine engine, int pages, int threads) {
  constexpr int kLonger = 4, kFewest = 2 * kInFlight;
  constexpr double kRound = 0.4;  // seconds
  cpu::set_thread_count(threads);
  Products products(threads);
  MovingPages moving(folder, engine, kLarge, pages);
  products.run(8);
  const double begin = seconds_now();
  products.run(8);
  const double product = (seconds_now() - begin) / 8;
  double page = 1e300;
  for (int round = 0; round < kRounds; ++round) page = std::min(page, moving.seconds_of_page(false, pages / 2, [] {}));
  const int times = std::max(1, static_cast<int>(kLonger * page / product));
  const int count = std::clamp(static_cast<int>(kRound / (times * product)), std::min(kFewest, pages / 2), pages / 2);
  double alone = 1e300, beside = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds_now();
    for (int i = 0; i < count; ++i) products.run(times);
    alone = std::min(alone, (seconds_now() - start) / count);
    beside = std::min(beside, moving.seconds_of_page(false, count, [&] { products.run(times); }));
  }
  const double lost = std::clamp(beside - alone, 0.0, page);  // a page that moves takes no more from kernels than its time
  return lost / static_cast<double>(2 * kLarge.n);
}

struct DiskRate {
  double bytes_per_second = 0, latency_seconds = 0;  // a page takes latency + bytes / rate
  double alone_bytes_per_second = 0;                 // with nothing the other way
  double kernel_seconds_per_byte = 0;                // lost beside it
};

DiskRate measure(const std::filesystem::path& folder, TransferEngine engine, Bytes capacity, int threads) {
  const auto most = static_cast<int>(std::min<std::int64_t>(capacity.n / kLarge.n, kPages));
  const int pages = std::max(2 * kInFlight, most / 2 * 2);
  const double large = measure_page(folder, engine, kLarge, pages, false);
  const double small = std::min(measure_page(folder, engine, kSmall, pages, false), large);
  const double rate = static_cast<double>((kLarge - kSmall).n) / std::max(large - small, 1e-9);
  const double latency = std::max(0.0, small - static_cast<double>(kSmall.n) / rate);
  const double alone = measure_page(folder, engine, kLarge, pages, true);
  const double alone_rate = static_cast<double>(kLarge.n) / std::max(alone - latency, 1e-9);
  const double most_alone = std::clamp(alone_rate, rate, 4 * rate);  // more than that is no rate
  return {rate, latency, most_alone, measure_lost_seconds(folder, engine, pages, threads)};
}

json to_json(const DiskRate& rate) {
  return {{"bytes_per_second", rate.bytes_per_second},
          {"alone_bytes_per_second", rate.alone_bytes_per_second},
          {"kernel_seconds_per_byte", rate.kernel_seconds_per_byte},
          {"latency_seconds", rate.latency_seconds}};
}

DiskRate rate_from(const json& object) {
  return {object.at("bytes_per_second").get<double>(), object.at("latency_seconds").get<double>(),
          object.at("alone_bytes_per_second").get<double>(), object.at("kernel_seconds_per_byte").get<double>()};
}

std::optional<DiskRate> known(const std::filesystem::path& path, TransferEngine engine) {
  try {
    const json object = json::parse(read_text(path, 4096, "E-MACHINE-FILE"));
    const DiskRate rate = rate_from(object);
    const bool sound = rate.bytes_per_second > 0 && rate.alone_bytes_per_second >= rate.bytes_per_second &&
                       rate.alone_bytes_per_second < kMostRate && rate.latency_seconds >= 0 &&
                       rate.latency_seconds < kMostLatency && rate.kernel_seconds_per_byte >= 0 &&
                       rate.kernel_seconds_per_byte < kMostLatency;
    if (object.at("schema") == kSchema && object.at("transfers") == name(engine) && sound) return rate;
  } catch (const std::exception&) {
    // Absent or damaged: measured again.
  }
  return {};
}

void keep(const DiskRate& rate, TransferEngine engine, const std::filesystem::path& path) {
  std::error_code ignored;  // the write says what is wrong with the folder
  std::filesystem::create_directories(path.parent_path(), ignored);
  json object = to_json(rate);
  object.update({{"schema", kSchema}, {"transfers", name(engine)}});
  write_file_atomically(path, object.dump() + "\n");
}

// Asked each time, so that a plan never counts on what a container no longer allows.
TransferEngine choose_engine(TransferPolicy policy, const std::function<void(const std::string&)>& say) {
  if (policy == TransferPolicy::threads) return TransferEngine::threads;
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return TransferEngine::io_uring;
  if (say) say(fmt::format("no io_uring ({}): transfers to the disk run on threads", refusal));
  return TransferEngine::threads;
}

}  // namespace

void add_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say) {
  if (const std::size_t known_disk = disk_of(machine); known_disk > 0) {
    if (policy == TransferPolicy::threads) machine.tiers[known_disk].transfers = TransferEngine::threads;
    machine.hash = machine_hash(machine);
    return;
  }
  struct stat facts {};
  if (::stat(disk.folder.c_str(), &facts) != 0) {
    throw data_error("E-DISK-FOLDER", disk.folder.string(), "there is no such folder", "a folder that can be written");
  }
  const TransferEngine engine = choose_engine(policy, say);
  const int threads = std::min(machine.threads, usable_cores());  // a described machine may have more
  const std::filesystem::path path =
      cache / fmt::format("disk-{:x}-{}-{}.json", static_cast<unsigned long long>(facts.st_dev), name(engine), threads);
  std::optional<DiskRate> rate = known(path, engine);
  if (!rate) {
    if (say) say(fmt::format("measuring the disk of {}, once, for {}", disk.folder.string(), path.string()));
    rate = rate_from(json::parse(run_in_child([&] { return to_json(measure(disk.folder, engine, disk.size, threads)).dump(); })));
    try {
      keep(*rate, engine, path);
    } catch (const std::exception& error) {
      if (say) say(fmt::format("the measurement is not kept: {}", error.what()));
    }
  }
  const std::string near = machine.tiers.back().name;
  machine.tiers.push_back({"disk", disk.size, engine});
  // What is written alone was not measured: no slower than what is written beside reads.
  machine.links.push_back({near, "disk", rate->bytes_per_second, rate->latency_seconds, true, 0, rate->kernel_seconds_per_byte});
  machine.links.push_back({"disk", near, rate->bytes_per_second, rate->latency_seconds, true, rate->alone_bytes_per_second,
                           rate->kernel_seconds_per_byte});
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
