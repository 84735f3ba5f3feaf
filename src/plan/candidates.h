// All candidates of one micro-batch size, paging and group: the plans of its chain of regions (plan/regions/region_plans), which
// one simulation tells for each level of offloaded inputs. The full simulator judges whatever is chosen in the end.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/regions/region_plans.h"
#include "plan/simulation.h"

namespace plimsoll {

// What all plans of one micro-batch size start from.
struct BatchModel {
  // The catalogue outlives this.
  BatchModel(Graph training, std::int64_t micro_batch, std::int64_t accumulation, int threads, KernelCatalogue& catalogue);
  BatchModel(const BatchModel&) = delete;

  Graph graph;
  std::int64_t micro_batch, accumulation;
  std::vector<Unit> units;
  int blocks;  // of the units
  NodeKernels kernels;
  regions::KnownWays ways;
};

// A smaller share of an update's seconds is no gain.
inline constexpr double kLeastGain = 0.001;

class BatchCandidates {
 public:
  // What only little memory needs: schedules of single nodes, and the bound, as far as it is not enough.
  struct Floor {
    bool counts = false;
    Bytes enough{std::numeric_limits<std::int64_t>::max()};
  };
  // Tells, once the ops are known, whether candidates are wanted. If not, the batch gives bounds alone.
  using Wanted = std::function<bool(const BatchCandidates&)>;
  // All references outlive this.
  BatchCandidates(
      BatchModel& model, const Paging& paging, std::int64_t group, const PlanRequest& request, const Machine& machine,
      Floor floor, const Wanted& wanted = [](const BatchCandidates&) { return true; });
  // More levels, and schedules of single nodes.
  void complete();
  // Gives back memory: what no plan needs; all plans, so that only bounds are left.
  void forget_other_edges();
  void forget_plans();

  BatchModel& model() const { return *model_; }
  const Paging& paging() const { return paging_; }
  const WindowOrder& window() const { return window_; }
  std::vector<NodeReplay> replays(const Candidate& candidate) const;
  Paging paging(const Candidate& candidate) const { return paging_of(levels_[candidate.level].activations); }
  // What is fastest, what holds least, and what leaves memory as far as it can; where activations need not.
  std::vector<Candidate> ends(std::size_t batch_index) const;
  // Every candidate that the request allows, so far.
  std::vector<Candidate> all(std::size_t batch_index) const;
  // Whether bytes and seconds of a candidate are those of its plan. Else bytes are an upper bound, and a simulation tells
  // seconds.
  bool exact(const Candidate& candidate) const { return levels_[candidate.level].regions.exact(); }
  bool exact_seconds(const Candidate& candidate) const { return levels_[candidate.level].regions.exact_seconds(); }
  bool exact() const {
    return std::ranges::all_of(levels_,
                               [](const Level& level) { return level.regions.exact() && level.regions.exact_seconds(); });
  }
  // Each of these candidates gets bytes and seconds from a simulation of its own.
  void simulate(std::span<Candidate* const> candidates) const;

  // Whether single nodes are decided on once it is complete, which may then hold far less than the ends.
  bool decides_on_nodes() const { return looks_for_floor_ || model_->blocks <= 1; }
  // Full simulations so far, and labels of chains.
  int simulations() const { return simulations_; }
  std::int64_t labels() const;
  std::size_t levels() const { return levels_.size(); }
  const RegionPlans& regions(std::size_t level) const { return levels_[level].regions; }

  // No schedule of these ops needs less arena (plan/bounds/bound.h).
  Bytes arena_bound() const { return arena_bound_; }
  // Every plan of this batch has the instructions and generated kernels of the smallest one; a GPU may keep no graph of them.
  Bytes least_reserve() const { return least_reserve(Bytes{0}, 0); }
  // The same of one candidate: what runs again is more instructions.
  Bytes least_reserve(const Candidate& candidate) const;
  // No plan of these candidates needs less of a process.
  Bytes bound() const {
    return arena_bound_ + least_reserve(arena_bound_, 0) + (levels_.empty() ? Bytes{0} : levels_.front().outside);
  }
  // Of an update in which every node runs once and waits for nothing; of its loss, over all numbers of chunks.
  double kernel_seconds() const { return kernel_seconds_; }
  Bytes least_loss_scratch() const { return Bytes{chunks_.back().least}; }

 private:
  struct ChunkChoice {
    int chunks;
    std::int64_t scratch;  // of the loss that needs most
    std::int64_t least;    // of the one that needs least
    double seconds;        // of all losses of a micro-step
    int primitives;
    double stall;  // more than in the simulation, where the loss streams
  };
  // The inputs of so many units rest elsewhere between the passes.
  struct Level {
    int activations;
    Bytes outside;  // for transfers
    RegionPlans regions;
  };

  Bytes least_reserve(Bytes arena, std::int64_t more_steps) const;
  Paging paging_of(int activations) const;
  Graph keeping_all(const Graph& paged, int activations) const;
  Simulation simulate_window(Graph graph);
  void look_at(const Simulation& keep, Floor floor);
  void find_chunks(const Simulation& simulation);
  bool offloads() const;
  bool offloading_waits() const;
  bool adds_schedules() const;
  void add_level(int activations, const Simulation& keep);
  void add_offloaded(const Graph& paged, int activations);
  void take_from(const Simulation& simulation, const Paging& paging, Candidate& candidate) const;
  Candidate candidate_of(std::size_t batch_index, std::size_t level, std::size_t chain) const;
  std::vector<Candidate> of_level(std::size_t batch_index, std::size_t level) const;

  BatchModel* model_;
  const PlanRequest* request_;
  const Machine* machine_;
  Paging paging_;
  WindowOrder window_;
  int chunks_simulated_;
  bool only_offloaded_;  // activations have to leave memory
  bool looks_for_floor_;
  std::vector<Level> levels_;
  std::vector<ChunkChoice> chunks_;
  double base_seconds_ = 0;  // of an update that keeps everything, without the loss
  double kernel_seconds_ = 0;
  Bytes arena_bound_;
  int simulations_ = 0;
  ReserveCounts least_counts_;
};

}  // namespace plimsoll
