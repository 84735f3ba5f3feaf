// Transfers of pages to and from a disk in both directions at once. The table has MB/s per direction for each engine of the page
// file and for plain O_DIRECT reads and writes without checksums, and the processor time of one MiB per direction. Variants run
// in turn; figures are medians of all rounds.
//   bench_disk FOLDER [MIB_EACH_WAY] [ROUNDS]
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "device/arena.h"
#include "device/disk/page_file.h"
#include "plan/passes/paging.h"

using namespace plimsoll;

namespace {

constexpr int kInFlight = 4;  // transfers in each direction

struct Sample {
  double seconds = 0, processor = 0;
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Sample timed(const std::function<void()>& body) {
  const double processor = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), processor_seconds() - processor};
}

// Page-aligned blocks, in huge pages if the kernel has them and the size allows it.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : arena_(Bytes{static_cast<std::int64_t>(bytes)}) {
    const std::span<std::byte> all = arena_.all();
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  }
  std::span<std::byte> part(std::size_t at, std::size_t bytes) { return arena_.all().subspan(at * bytes, bytes); }

 private:
  Arena arena_;
};

void check(bool good, const char* what) {
  if (good) return;
  fmt::print(stderr, "{} failed\n", what);
  std::exit(1);
}

// One thread per transfer in flight, with system calls alone.
Sample raw(const NamelessFile& file, std::size_t page, int pages) {
  Memory memory(page * 2 * kInFlight);
  return timed([&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kInFlight; ++t) {
      threads.emplace_back([&, t] {
        for (int i = t; i < pages; i += kInFlight) {
          const auto at = static_cast<off_t>(page) * i;
          check(::pread(file.fd(), memory.part(static_cast<std::size_t>(t), page).data(), page, at) == static_cast<ssize_t>(page),
                "read");
        }
      });
      threads.emplace_back([&, t] {
        for (int i = t; i < pages; i += kInFlight) {
          const auto at = static_cast<off_t>(page) * (pages + i);
          const auto from = memory.part(static_cast<std::size_t>(kInFlight + t), page);
          check(::pwrite(file.fd(), from.data(), page, at) == static_cast<ssize_t>(page), "write");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

Sample paged(PageFile& file, std::size_t page, int pages) {
  Memory memory(page * 2 * kInFlight);
  const Bytes size{static_cast<std::int64_t>(page)};
  return timed([&] {
    for (int i = 0; i < pages; ++i) {
      const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
      if (i >= kInFlight) file.wait(in), file.wait(out);
      file.start_read(in, size * i, memory.part(in, page));
      file.start_write(out, size * (pages + i), memory.part(out, page));
    }
    for (std::uint32_t event = 0; event < 2 * kInFlight; ++event) file.wait(event);
  });
}

Sample median(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; });
  return samples[samples.size() / 2];
}

void compare(const std::string& folder, Bytes page, Bytes each_way, int rounds) {
  const int pages = static_cast<int>(each_way.n / page.n);
  const auto bytes = static_cast<std::size_t>(page.n);
  std::vector<PageFile::Piece> pieces;
  for (int i = 0; i < 2 * pages; ++i) pieces.push_back({page * i, page});
  const NamelessFile plain(folder, page * 2 * pages);
  if (!plain.direct()) fmt::print("{} has no O_DIRECT: these are figures of the page cache\n", folder);
  std::vector<TransferEngine> engines{TransferEngine::threads};
  const std::string refusal = io_uring_refusal();
  if (refusal.empty())
    engines.push_back(TransferEngine::io_uring);
  else
    fmt::print("no io_uring here: {}\n", refusal);
  std::vector<std::unique_ptr<PageFile>> files;
  for (const TransferEngine engine : engines) {
    files.push_back(std::make_unique<PageFile>(
        folder, PageFile::Sizes{page * 2 * pages, kTransfers, kTransferStaging, 2 * kInFlight, engine}, pieces));
    files.back()->write({}, page * 2 * pages,
                        [](std::span<std::byte> part) { std::fill(part.begin(), part.end(), std::byte{7}); });
  }
  Memory fill(bytes);
  for (int i = 0; i < 2 * pages; ++i) {
    check(::pwrite(plain.fd(), fill.part(0, bytes).data(), bytes, static_cast<off_t>(page.n) * i) == page.n, "write");
  }
  std::vector<std::vector<Sample>> samples(engines.size() + 1);
  for (int round = 0; round < rounds; ++round) {
    samples[0].push_back(raw(plain, bytes, pages));
    for (std::size_t i = 0; i < engines.size(); ++i) samples[i + 1].push_back(paged(*files[i], bytes, pages));
  }
  const double base = median(samples[0]).seconds;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample sample = median(samples[i]);
    fmt::print("{:>9}  {:<10}{:>8.0f} MB/s each way{:>7.0f} % of raw{:>8.0f} us of a processor per MiB\n", to_text(page),
               i == 0 ? "raw" : name(engines[i - 1]), static_cast<double>(each_way.n) / sample.seconds / 1e6,
               100 * base / sample.seconds, 1e6 * sample.processor / (static_cast<double>(each_way.n) / (1 << 20)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const Bytes each_way = kMiB * (argc > 2 ? std::atoi(argv[2]) : 256);
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  for (const Bytes page : {kKiB * 128, kMiB}) compare(argv[1], page, each_way, rounds);
}
