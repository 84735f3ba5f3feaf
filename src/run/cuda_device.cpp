#include "run/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "ops/cuda_kernel.h"
#include "plan/passes/paging.h"
#include "plan/tiers/pinned.h"
#include "run/moved.h"

namespace plimsoll {
namespace {

// Places in the arena that the host feeds or fetches, with the most bytes there: several values may use one place in turn.
// Kernels never read staging, the source of feeds, but it has a place in the arena as well.
std::map<Bytes, Bytes> mirrored_places(const Program& program) {
  std::map<Bytes, Bytes> places;
  const auto add = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      Bytes& size = places[operand.offset];
      size = std::max(size, operand.bytes);
    }
  };
  for (const auto* section : program.sections()) {
    for (const Instruction& instruction : *section) {
      if (const auto* feed = std::get_if<Feed>(&instruction)) add(feed->reads), add(feed->writes);
      if (const auto* fetch = std::get_if<Fetch>(&instruction)) add(fetch->reads);
    }
  }
  return places;
}

}  // namespace

Bytes CudaDevice::host_bytes(const Program& program) {
  Bytes sum = kPinnedPart;
  for (const auto& [offset, size] : mirrored_places(program)) sum += align_up(size, kPinnedAlignment);
  return align_up(sum, kPage);
}

CudaDevice::CudaDevice(const Program& program, const Plan& plan, const CudaOptions& options)
    : arena_(program.arena + options.beyond), pace_(options.pace) {
  if (const std::size_t host_tier = tier_of(plan.tiers, TierKind::host); host_tier > 0) {
    const Moved moved = moved_by(program, host_tier);
    host_tier_ = static_cast<std::uint8_t>(host_tier);
    held_ = program.stored[host_tier];
    for (const TierStore::Piece& piece : moved.pieces) pieces_.emplace(piece.offset, piece.bytes);
    done_.resize(moved.events);
    for (auto& event : done_) event = std::make_unique<cuda::Event>();
  }
  place_mirrors(program);
  host_.emplace(held_ + host_bytes(program));
  pinned_.emplace(host_->all());
  open_disk(program, plan, options.disk);
  if (disk_ != nullptr && pace_ == CudaPace::graphs) pace_ = CudaPace::kernels;
  if (disk_ == nullptr && pace_ == CudaPace::checked) reach_.emplace(arena_.all());
}

CudaDevice::~CudaDevice() {
  disk_.reset();  // its transfers use all of the rest
  try {
    cuda::synchronize_device();
  } catch (const Error&) {  // reported already
  }
}

void CudaDevice::place_mirrors(const Program& program) {
  Bytes end = align_up(held_, kPinnedAlignment) + kPinnedPart;
  for (const auto& [offset, size] : mirrored_places(program)) {
    mirrors_.emplace(offset, Mirror{end, std::make_unique<cuda::Event>()});
    end += align_up(size, kPinnedAlignment);
  }
}

void CudaDevice::open_disk(const Program& program, const Plan& plan, const std::filesystem::path& folder) {
  const std::size_t tier = tier_of(plan.tiers, TierKind::disk);
  if (tier == 0 || program.stored[tier].n == 0) return;
  disk_tier_ = static_cast<std::uint8_t>(tier);
  Moved moved = moved_by(program, tier);
  PageFile::Sizes sizes{program.stored[tier], kTransfers, kTransferStaging, moved.events, plan.transfers};
  sizes.copy = [this](std::byte* to, const std::byte* from, std::size_t bytes, bool read) {
    ready_of(read ? to : from).wait();
    const cuda::Stream& lane = read ? disk_in_ : disk_out_;
    lane.copy(to, from, bytes);
    lane.synchronize();
  };
  disk_ = std::make_unique<PageFile>(folder, sizes, std::move(moved.pieces));
  staging_.emplace(disk_->staging());
}

Device::BoundKernel CudaDevice::bind(const KernelRequest& request) { return {bind_cuda(request), choose_cuda(request).scratch}; }

std::byte* CudaDevice::resting(const Operand& operand) const { return host_->base() + operand.offset.n; }

// A transfer may use its source and its room after the kernels so far.
void CudaDevice::begin(Lane& lane) {
  lane.ready.record(compute_);
  lane.stream.wait(lane.ready);
}

// A piece moves between disk and staging at once, and between staging and device after the kernels so far.
void CudaDevice::begin_on_disk(std::byte* room) {
  const std::lock_guard lock(rooms_);
  std::unique_ptr<cuda::Event>& event = ready_[room];
  if (event == nullptr) event = std::make_unique<cuda::Event>();
  event->record(compute_);
}

// The event of a transfer's room, by an address within it.
const cuda::Event& CudaDevice::ready_of(const std::byte* address) {
  const std::lock_guard lock(rooms_);
  return *std::prev(ready_.upper_bound(address))->second;
}

void CudaDevice::start(const StartCopy& copy) {
  const bool in = copy.from.tier != 0;
  const Operand& stored = in ? copy.from : copy.to;
  std::byte* const here = address(in ? copy.to : copy.from);
  const auto bytes = static_cast<std::size_t>(stored.bytes.n);
  if (on_disk(stored.tier)) {
    begin_on_disk(here);
    in ? disk_->start_read(copy.event, stored.offset, {here, bytes})
       : disk_->start_write(copy.event, stored.offset, {here, bytes});
    return;
  }
  Lane& lane = in ? in_ : out_;
  begin(lane);
  if (!in) written_[stored.offset] = stored.bytes;
  lane.stream.copy(in ? here : resting(stored), in ? resting(stored) : here, bytes);
  done_.at(copy.event)->record(lane.stream);
  under_way_.insert(copy.event);
}

// Transfers of earlier graphs have ended with them.
void CudaDevice::wait(const WaitCopy& copy) {
  if (on_disk(copy.tier)) return disk_->wait(copy.event);
  if (under_way_.erase(copy.event) > 0) compute_.wait(*done_.at(copy.event));
}

bool CudaDevice::waits_on_host(const Instruction& instruction) const {
  if (const auto* start = std::get_if<StartCopy>(&instruction)) return on_disk(start->from.tier) || on_disk(start->to.tier);
  const auto* wait = std::get_if<WaitCopy>(&instruction);
  return wait != nullptr && on_disk(wait->tier);
}

// A graph begins and ends on the stream of the kernels, which therefore waits for all transfers of the graph.
void CudaDevice::join() {
  for (const std::uint32_t event : under_way_) compute_.wait(*done_.at(event));
  under_way_.clear();
}

// Runs a segment kernel by kernel the first time, so that the driver loads the kernels, then captures it.
void CudaDevice::run(std::size_t segment, const std::function<void()>& work) {
  if (pace_ != CudaPace::graphs) return work();
  const auto all = [&] {
    work();
    join();
  };
  const auto [place, fresh] = captured_.try_emplace(segment);
  Captured& captured = place->second;
  if (!fresh) {
    captured.graph->launch(compute_);
    written_.merge(captured.writes);
    return;
  }
  auto before = std::exchange(written_, {});
  all();
  captured.graph = std::make_unique<cuda::Graph>(compute_, all);
  captured.writes = std::exchange(written_, std::move(before));
}

// Runs everything on zeros, so that no kernel follows an index out of range, and zeroes the host tier again afterwards. Later
// runs of segments load and allocate nothing.
void CudaDevice::prepare(const std::function<void()>& everything) {
  arena_.fill_with_zeros();
  everything();
  cuda::synchronize_device();
  const auto forget = [&](const std::map<Bytes, Bytes>& writes) {
    for (const auto& [offset, bytes] : writes) std::memset(host_->base() + offset.n, 0, static_cast<std::size_t>(bytes.n));
  };
  for (const auto& [segment, captured] : captured_) forget(captured.writes);
  forget(written_);
  written_.clear();
}

void CudaDevice::expect(const RunKernel& run) {
  if (!reach_) return;
  cuda::synchronize_device();
  std::vector<std::span<std::byte>> ranges;
  const auto add = [&](const Operand& operand) {
    ranges.emplace_back(address(operand), static_cast<std::size_t>(operand.bytes.n));
  };
  std::ranges::for_each(run.inputs, add);
  std::ranges::for_each(run.outputs, add);
  add(run.scratch);
  reach_->only(std::move(ranges));
}

void CudaDevice::check() {
  if (pace_ != CudaPace::checked) return;
  cuda::synchronize_device();
  if (reach_) reach_->all();
}

const CudaDevice::Mirror& CudaDevice::mirror_of(const Operand& operand) const {
  const auto found = mirrors_.find(operand.offset);
  ensure(found != mirrors_.end(), "device cuda", "the host looks at what it neither feeds nor fetches");
  return found->second;
}

std::byte* CudaDevice::host(const Operand& operand) const {
  const Mirror& mirror = mirror_of(operand);
  mirror.moved->wait();
  return host_->base() + mirror.offset.n;
}

void CudaDevice::fed(const std::vector<Operand>& written) {
  for (const Operand& operand : written) {
    const Mirror& mirror = mirror_of(operand);
    compute_.copy(address(operand), host_->base() + mirror.offset.n, static_cast<std::size_t>(operand.bytes.n));
    mirror.moved->record(compute_);
  }
  // With stamps the stream is held while a section is launched, so that times of kernels do not include waits for launches.
  constexpr double kAhead = 0.1;  // seconds
  if (!stamps_.empty()) compute_.hold(kAhead);
}

void CudaDevice::fetch(const std::vector<Operand>& wanted) {
  for (const Operand& operand : wanted) {
    const Mirror& mirror = mirror_of(operand);
    compute_.copy(host_->base() + mirror.offset.n, address(operand), static_cast<std::size_t>(operand.bytes.n));
    mirror.moved->record(compute_);
  }
}

void CudaDevice::stamp(std::size_t number) {
  while (stamps_.size() <= number) stamps_.push_back(std::make_unique<cuda::TimedEvent>());
  stamps_[number]->record(compute_);
}

double CudaDevice::seconds_between(std::size_t from, std::size_t to) const {
  return stamps_.at(to)->seconds_since(*stamps_.at(from));
}

std::optional<TierUse> CudaDevice::use_of(std::size_t tier) const {
  if (on_disk(static_cast<std::uint8_t>(tier))) return TierUse{disk_->height(), disk_->written(), disk_->wear(), disk_->engine()};
  if (held_.n == 0 || tier != host_tier_) return {};
  TierUse use;
  for (const auto& [offset, bytes] : written_) {
    use.height = align_up(offset + bytes, TierStore::kPieceAlignment);
    use.written += align_up(bytes, TierStore::kPieceAlignment);
  }
  return use;
}

template <class Part>
void CudaDevice::in_parts(const Operand& operand, const Part& part) const {
  compute_.synchronize();
  std::byte* const room = host_->base() + align_up(held_, kPinnedAlignment).n;
  for (Bytes done; done < operand.bytes; done += kPinnedPart) {
    const auto bytes = static_cast<std::size_t>(std::min(kPinnedPart, operand.bytes - done).n);
    part(std::span(room, bytes), address(operand) + done.n);
  }
}

void CudaDevice::read(const Operand& operand, const Sink& sink) const {
  if (operand.tier == 0) {
    return in_parts(operand, [&](std::span<std::byte> room, const std::byte* there) {
      compute_.copy(room.data(), there, room.size());
      compute_.synchronize();
      sink(room);
    });
  }
  compute_.synchronize();
  if (on_disk(operand.tier)) return disk_->read(operand.offset, operand.bytes, sink);
  sink({resting(operand), static_cast<std::size_t>(operand.bytes.n)});
}

void CudaDevice::write(const Operand& operand, const Source& source) {
  if (operand.tier == 0) {
    return in_parts(operand, [&](std::span<std::byte> room, std::byte* there) {
      source(room);
      compute_.copy(there, room.data(), room.size());
      compute_.synchronize();
    });
  }
  compute_.synchronize();
  if (on_disk(operand.tier)) return disk_->write(operand.offset, operand.bytes, source);
  for (const auto& [offset, bytes] : pieces_) {
    if (operand.offset <= offset && offset < operand.offset + operand.bytes) written_[offset] = bytes;
  }
  source({resting(operand), static_cast<std::size_t>(operand.bytes.n)});
}

}  // namespace plimsoll
