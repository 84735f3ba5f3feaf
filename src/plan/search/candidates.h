// All candidates of one micro-batch size, paging and group: the plans of its chain of regions (plan/regions/region_plans). One
// simulation per level of offloaded inputs yields them. The full simulator judges the final choice.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "plan/regions/region_plans.h"
#include "plan/request.h"
#include "plan/search/candidate.h"
#include "plan/simulation.h"

namespace plimsoll {

// The data that all plans of one micro-batch size share.
struct BatchModel {
  // The catalogue outlives this.
  BatchModel(Graph training, std::int64_t micro_batch, std::int64_t accumulation, int threads, KernelCatalogue& catalogue);
  BatchModel(const BatchModel&) = delete;

  Graph graph;
  std::int64_t micro_batch, accumulation;
  std::vector<Unit> units;
  int blocks;   // of the units
  bool trains;  // false: the graph has forward passes alone
  NodeKernels kernels;
  regions::KnownWays ways;
};

// The least gain that counts, as a share of an update's seconds.
inline constexpr double kLeastGain = 0.001;

class BatchCandidates {
 public:
  // Work for small budgets. `counts`: add schedules of single nodes. `enough`: the arena bound is exact only below this.
  struct Floor {
    bool counts = false;
    Bytes enough{std::numeric_limits<std::int64_t>::max()};
  };
  // Called after the first simulation; true if candidates are wanted. Otherwise the batch has bounds only.
  using Wanted = std::function<bool(const BatchCandidates&)>;
  // All references outlive this.
  BatchCandidates(
      BatchModel& model, const Residency& residency, std::int64_t group, const PlanRequest& request, const Machine& machine,
      Floor floor, const Wanted& wanted = [](const BatchCandidates&) { return true; });
  // Adds levels and schedules of single nodes.
  void complete();
  // Free memory: edges that no plan uses; all plans, so that only bounds are left.
  void forget_other_edges();
  void forget_plans();

  BatchModel& model() const { return *model_; }
  const Residency& residency() const { return residency_; }
  const WindowOrder& window() const { return window_; }
  std::vector<NodeReplay> replays(const Candidate& candidate) const;
  Residency residency(const Candidate& candidate) const { return residency_of(levels_[candidate.level].activations); }
  // The fastest and the smallest candidate of each level, including levels without offloaded activations.
  std::vector<Candidate> ends(std::size_t batch_index) const;
  // All candidates found so far that the request allows.
  std::vector<Candidate> all(std::size_t batch_index) const;
  // True if the bytes (the seconds) of a candidate are those of its plan. Otherwise the bytes are an upper bound, and only a
  // simulation yields the seconds.
  bool exact(const Candidate& candidate) const { return levels_[candidate.level].regions.exact(); }
  bool exact_seconds(const Candidate& candidate) const { return levels_[candidate.level].regions.exact_seconds(); }
  bool exact() const {
    return std::ranges::all_of(levels_,
                               [](const Level& level) { return level.regions.exact() && level.regions.exact_seconds(); });
  }
  // Sets bytes and seconds of each candidate by a simulation of its plan.
  void simulate(std::span<Candidate* const> candidates) const;

  // True if complete() decides on single nodes. Its plans may then hold far less than the ends.
  bool decides_on_nodes() const { return looks_for_floor_ || model_->blocks <= 1; }
  // The number of full simulations so far, and of labels of chains.
  int simulations() const { return simulations_; }
  std::int64_t labels() const;
  std::size_t levels() const { return levels_.size(); }
  const RegionPlans& regions(std::size_t level) const { return levels_[level].regions; }

  // A lower bound on the arena of every schedule of these ops (plan/search/bound.h).
  Bytes arena_bound() const { return arena_bound_; }
  // A lower bound on the reserve: every plan of this batch has the instructions and generated kernels of the smallest one. Kept
  // GPU graphs do not count, since a GPU may keep none.
  Bytes least_reserve() const { return least_reserve_; }
  // A lower bound on the process of every plan of these candidates.
  Bytes bound() const {
    return align_up(arena_bound_, kPage) + least_reserve_ + (levels_.empty() ? Bytes{0} : levels_.front().transfers);
  }
  // Seconds of an update in which every node runs once and waits for nothing; the least scratch of its loss over all numbers of
  // chunks.
  double kernel_seconds() const { return kernel_seconds_; }
  Bytes least_loss_scratch() const { return Bytes{chunks_.back().least}; }

 private:
  struct ChunkChoice {
    int chunks = 1;
    std::int64_t scratch = 0;  // of all its losses if they stream together, else of the largest
    std::int64_t least = 0;    // likewise, but of the smallest
    double seconds = 0;        // of all losses of a micro-step
    int primitives = 0;
    double stall = 0;  // seconds more than in the simulation, if the loss streams
  };
  // A level: the inputs of the first `activations` units rest elsewhere between the passes.
  struct Level {
    int activations;
    Bytes transfers;  // outside the arena
    RegionPlans regions;
  };

  Residency residency_of(int activations) const;
  Graph keeping_all(const Graph& paged, int activations) const;
  Simulation simulate_window(Graph graph);
  void look_at(const Simulation& keep, Floor floor);
  void find_chunks(const Simulation& simulation);
  // Fewest kernels of the losses, over all numbers of chunks; bytes of the kernels with these chunks above the fewest.
  int least_loss_kernels() const { return std::ranges::min(chunks_, {}, &ChunkChoice::primitives).primitives; }
  Bytes loss_kernels(int chunks) const;
  bool offloads() const;
  bool offloading_waits() const;
  bool adds_schedules() const;
  void add_level(int activations, const Simulation& keep);
  void add_offloaded(const Graph& paged, int activations);
  void take_from(const Simulation& simulation, const Residency& residency, Candidate& candidate) const;
  Candidate candidate_of(std::size_t batch_index, std::size_t level, std::size_t chain) const;
  std::vector<Candidate> of_level(std::size_t batch_index, std::size_t level) const;

  BatchModel* model_;
  const PlanRequest* request_;
  const Machine* machine_;
  Residency residency_;
  WindowOrder window_;
  int chunks_simulated_;
  bool only_offloaded_;  // activations have to leave memory
  bool looks_for_floor_;
  std::vector<Level> levels_;
  std::vector<ChunkChoice> chunks_;
  double base_seconds_ = 0;  // seconds of an update that keeps everything, without the loss
  double kernel_seconds_ = 0;
  Bytes arena_bound_;
  int simulations_ = 0;
  ReserveCounts least_counts_;
  Bytes least_reserve_;
};

}  // namespace plimsoll
