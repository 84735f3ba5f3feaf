#include "train/measure_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "train/child.h"
#include "train/measure.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.disk/5";
constexpr Bytes kLarge{1 << 20}, kSmall{128 << 10};
constexpr int kPages = 84;    // of each size, where there is room for so many
constexpr int kInFlight = 4;  // of each way
constexpr int kRounds = 7;    // one after the other of all that is measured: a disk has better and worse moments
constexpr double kMostRate = 1e12, kMostLatency = 10;

// Pages that come in and go out side by side, large ones and behind them small ones.
class MovingPages {
 public:
  MovingPages(const StoreOfPieces& store, int pages)
      : pages_(pages), store_(store(pieces(), 2 * kInFlight)), memory_(kLarge.n * 2 * kInFlight) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    for (const TierStore::Piece& piece : pieces()) {
      store_->write(piece.offset, piece.bytes,
                    [&](std::span<std::byte> part) { std::copy_n(memory_.begin(), part.size(), part.begin()); });
    }
  }

  // Seconds of a page that is read, while as many are written, or none, and `work` is done for each.
  double seconds_of_page(Bytes page, bool alone, int pages, const std::function<void()>& work) {
    const Bytes first = page == kLarge ? Bytes{0} : kLarge * pages_;
    const double start = seconds_now();
    for (int i = 0; i < pages; ++i) {
      const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
      if (i >= kInFlight) store_->wait(in);
      if (i >= kInFlight && !alone) store_->wait(out);
      store_->start_read(in, first + page * i, slot(in, page));
      if (!alone) store_->start_write(out, first + page * (pages_ / 2 + i), slot(out, page));
      work();
    }
    for (std::uint32_t event = 0; event < (alone ? 1 : 2) * kInFlight; ++event) store_->wait(event);
    return (seconds_now() - start) / pages;
  }

 private:
  std::vector<TierStore::Piece> pieces() const {
    std::vector<TierStore::Piece> pieces;
    for (int i = 0; i < pages_; ++i) pieces.push_back({kLarge * i, kLarge});
    for (int i = 0; i < pages_; ++i) pieces.push_back({kLarge * pages_ + kSmall * i, kSmall});
    return pieces;
  }
  std::span<std::byte> slot(std::uint32_t number, Bytes page) {
    return std::span(memory_).subspan(static_cast<std::size_t>(kLarge.n * number), static_cast<std::size_t>(page.n));
  }

  int pages_;
  std::unique_ptr<TierStore> store_;
  std::vector<std::byte> memory_;
};

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
double measure_lost_seconds(MovingPages& moving, double page, int pages, int threads) {
  constexpr int kLonger = 4, kFewest = 2 * kInFlight;
  constexpr double kRound = 0.25;  // seconds
  cpu::set_thread_count(threads);
  Products products(threads);
  products.run(8);
  const double begin = seconds_now();
  products.run(8);
  const double product = (seconds_now() - begin) / 8;
  const int times = std::max(1, static_cast<int>(kLonger * page / product));
  const int count = std::clamp(static_cast<int>(kRound / (times * product)), std::min(kFewest, pages / 2), pages / 2);
  std::vector<double> lost;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds_now();
    for (int i = 0; i < count; ++i) products.run(times);
    const double alone = (seconds_now() - start) / count;
    lost.push_back(moving.seconds_of_page(kLarge, false, count, [&] { products.run(times); }) - alone);
  }
  // A page that moves takes no more from kernels than its time.
  return std::clamp(median(std::move(lost)), 0.0, page) / static_cast<double>(2 * kLarge.n);
}

StoreRate measure(const StoreOfPieces& store, Bytes capacity, int threads) {
  const auto most = static_cast<int>(std::min<std::int64_t>(capacity.n / (kLarge + kSmall).n, kPages));
  const int pages = std::max(2 * kInFlight, most / 2 * 2);
  MovingPages moving(store, pages);
  std::vector<double> large_rounds, small_rounds, alone_rounds;
  for (int round = 0; round < kRounds; ++round) {
    large_rounds.push_back(moving.seconds_of_page(kLarge, false, pages / 2, [] {}));
    small_rounds.push_back(moving.seconds_of_page(kSmall, false, pages / 2, [] {}));
    alone_rounds.push_back(moving.seconds_of_page(kLarge, true, pages / 2, [] {}));
  }
  const double large = median(std::move(large_rounds)), small = std::min(median(std::move(small_rounds)), large);
  const double rate = static_cast<double>((kLarge - kSmall).n) / std::max(large - small, 1e-9);
  const double latency = std::max(0.0, small - static_cast<double>(kSmall.n) / rate);
  const double alone_rate = static_cast<double>(kLarge.n) / std::max(median(std::move(alone_rounds)) - latency, 1e-9);
  const double most_alone = std::clamp(alone_rate, rate, 4 * rate);  // more than that is no rate
  return {rate, latency, most_alone, measure_lost_seconds(moving, large, pages, threads)};
}

json to_json(const StoreRate& rate) {
  return {{"bytes_per_second", rate.bytes_per_second},
          {"alone_bytes_per_second", rate.alone_bytes_per_second},
          {"kernel_seconds_per_byte", rate.kernel_seconds_per_byte},
          {"latency_seconds", rate.latency_seconds}};
}

StoreRate rate_from(const json& object) {
  return {object.at("bytes_per_second").get<double>(), object.at("latency_seconds").get<double>(),
          object.at("alone_bytes_per_second").get<double>(), object.at("kernel_seconds_per_byte").get<double>()};
}

std::optional<StoreRate> known(const std::filesystem::path& path, const std::string& kind) {
  try {
    const json object = json::parse(read_text(path, 4096, "E-MACHINE-FILE"));
    const StoreRate rate = rate_from(object);
    const bool sound = rate.bytes_per_second > 0 && rate.alone_bytes_per_second >= rate.bytes_per_second &&
                       rate.alone_bytes_per_second < kMostRate && rate.latency_seconds >= 0 &&
                       rate.latency_seconds < kMostLatency && rate.kernel_seconds_per_byte >= 0 &&
                       rate.kernel_seconds_per_byte < kMostLatency;
    if (object.at("schema") == kSchema && object.at("transfers") == kind && sound) return rate;
  } catch (const std::exception&) {
    // Absent or damaged: measured again.
  }
  return {};
}

void keep(const StoreRate& rate, const std::string& kind, const std::filesystem::path& path) {
  std::error_code ignored;  // the write says what is wrong with the folder
  std::filesystem::create_directories(path.parent_path(), ignored);
  json object = to_json(rate);
  object.update({{"schema", kSchema}, {"transfers", kind}});
  write_file_atomically(path, object.dump() + "\n");
}

}  // namespace

StoreRate store_rate(const StoreOfPieces& store, Bytes capacity, int threads, const std::string& kind, const std::string& what,
                     const std::filesystem::path& file, const std::function<void(const std::string&)>& say) {
  if (const std::optional<StoreRate> rate = known(file, kind)) return *rate;
  if (say) say(fmt::format("measuring {}, once, for {}", what, file.string()));
  const StoreRate rate = rate_from(json::parse(run_in_child([&] { return to_json(measure(store, capacity, threads)).dump(); })));
  try {
    keep(rate, kind, file);
  } catch (const std::exception& error) {
    if (say) say(fmt::format("the measurement is not kept: {}", error.what()));
  }
  return rate;
}

}  // namespace plimsoll
