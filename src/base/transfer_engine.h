// The mechanism of disk transfers: measured with the disk, chosen by the plan, used by the run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class TransferEngine : std::uint8_t { threads, io_uring };

inline constexpr std::array<std::string_view, 2> kTransferEngines{"threads", "io_uring"};

constexpr std::string_view name(TransferEngine engine) { return kTransferEngines[static_cast<std::size_t>(engine)]; }

constexpr std::optional<TransferEngine> transfer_engine_named(std::string_view text) {
  for (const TransferEngine engine : {TransferEngine::threads, TransferEngine::io_uring}) {
    if (name(engine) == text) return engine;
  }
  return {};
}

}  // namespace plimsoll
