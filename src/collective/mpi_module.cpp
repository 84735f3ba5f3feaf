// The table of the MPI module.
#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/gather.h"
#include "collective/mpi_backend.h"
#include "collective/mpi_engine.h"
#include "interface_id.h"

namespace plimsoll {
namespace {

class MpiPeers final : public Peers {
 public:
  MpiPeers() : engine_(MpiEngine::start()) {
    if (count() == 1) return;
    reserve(1, 2 * static_cast<std::size_t>(count() - 1));
    std::array<char, 64> name{};
    ::gethostname(name.data(), name.size() - 1);
    for (const auto& each : gather(*this, 0, name)) hosts_.emplace_back(each.data());
  }
  // The end of MPI waits for all ranks, and does not sleep meanwhile: they meet here first.
  ~MpiPeers() override {
    patient_ = true;
    try {
      if (count() > 1 && !engine_.failed()) Gather(*this, 0, 1).run();
    } catch (const Error&) {  // another rank has reported it
    }
    engine_.leave();
  }

  int rank() const override { return engine_.rank(); }
  int count() const override { return engine_.count(); }
  std::string host(int rank) const override { return hosts_.empty() ? "" : hosts_[static_cast<std::size_t>(rank)]; }
  void limit(double seconds, bool patient) override {
    seconds_ = seconds;
    patient_ = patient;
  }
  void reserve(std::uint32_t events, std::size_t parts) override { engine_.reserve(events, parts); }
  void start(std::uint32_t event, const Exchange& exchange) override { engine_.post(event, exchange); }
  void wait(std::uint32_t event) override {
    const std::optional<int> silent = engine_.wait(event, seconds_, patient_);
    if (!silent) return;
    throw Error(ErrorKind::environment, ExitCode::interrupted, "E-RANK-LOST", fmt::format("rank {}", *silent),
                fmt::format("it has not answered for {:g} s; it runs on {}", seconds_, host(*silent)),
                "a process and a network that last to the end, or a longer time",
                {Change("parallel.fail_after", fmt::format("{:.0f}s", 4 * seconds_))});
  }
  void fail(const Error& error) override { engine_.fail(error); }
  Bytes sent() const override { return engine_.sent(); }

 private:
  MpiEngine& engine_;
  double seconds_ = 0;
  bool patient_ = false;
  std::vector<std::string> hosts_;
};

std::string library() { return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION); }
std::unique_ptr<Peers> join() { return std::make_unique<MpiPeers>(); }

constexpr MpiBackend kBackend{PLIMSOLL_INTERFACE, library, join};

}  // namespace
}  // namespace plimsoll

extern "C" [[gnu::visibility("default")]] const plimsoll::MpiBackend* plimsoll_mpi_backend();
const plimsoll::MpiBackend* plimsoll_mpi_backend() { return &plimsoll::kBackend; }
