// A GPU's device, kernels and transfers over the emulation. It trains like the CPU, and to the same bits for every residency and
// recomputation, with and without graphs, and in any order of the streams.
#include <algorithm>
#include <bit>
#include <ostream>

#include "device/cuda/emulation_streams.h"
#include "device/cuda/rates.h"
#include "plan/tiers/pinned.h"
#include "run/cuda_session.h"
#include "run/instruction_timer.h"

namespace plimsoll {

void PrintTo(DType dtype, std::ostream* out) { *out << name(dtype); }

namespace {

constexpr int kUpdates = 2;
const ModelShape kSmall{3, 32, 2, 9, 70};

class CudaDeviceTest : public testing::TestWithParam<DType> {
 protected:
  CudaDeviceTest() {
    cpu::set_thread_count(2);
    config_.precision.compute = GetParam();
  }
  ~CudaDeviceTest() override { cuda::emulation::draw_order(0); }

  Plan plan(std::int64_t micro, BlockMode mode = BlockMode::keep, const Residency& residency = {}, std::int64_t group = 1) const {
    return plan_with(config_, micro, {mode}, 1, data_.facts(), residency, group, round_gpu());
  }
  static Residency elsewhere(bool all, Bytes near = Residency::kAllNear) {
    Residency residency{
        .pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = {.beyond = all}, .accumulators = {.beyond = all}};
    residency.near = near;
    return residency;
  }

  TokenData data_{kSmall.vocab, 400, 90};
  Config config_ = config_for(kSmall, 4);
};

TEST_P(CudaDeviceTest, TrainsLikeTheCpu) {
  const Plan on_gpu = plan(2), on_cpu = plan_with(config_, 2, {BlockMode::keep}, 1, data_.facts());
  const Outcome gpu = CudaSession(config_, on_gpu, data_.files).train(3), cpu = Session(config_, on_cpu, data_.files).train(3);
  const double within = GetParam() == DType::f32 ? 1e-5 : 1e-2;
  for (std::size_t i = 0; i < gpu.losses.size(); ++i) {
    EXPECT_NEAR(std::bit_cast<double>(gpu.losses[i]), std::bit_cast<double>(cpu.losses[i]), within * 5) << i;
    EXPECT_NEAR(std::bit_cast<double>(gpu.norms[i]), std::bit_cast<double>(cpu.norms[i]),
                within * std::bit_cast<double>(cpu.norms[i]))
        << i;
  }
}

TEST_P(CudaDeviceTest, HasTheSameBitsWhereverThingsRest) {
  for (const std::int64_t micro : {1, 4}) {
    const Outcome resident = CudaSession(config_, plan(micro), data_.files).train(kUpdates);
    for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
      for (const Residency& residency :
           {Residency{}, elsewhere(false), elsewhere(true), elsewhere(true, Bytes{0}), elsewhere(true, kKiB * 64)}) {
        const Plan moved = plan(micro, mode, residency);
        SCOPED_TRACE(testing::Message() << micro << " " << static_cast<int>(mode) << " " << moved.stored[1].n << " "
                                        << moved.stored[2].n);
        EXPECT_EQ(CudaSession(config_, moved, data_.files).train(kUpdates), resident);
      }
    }
    if (micro > 1) continue;
    const Plan together = plan(1, BlockMode::keep, elsewhere(true), 2);
    EXPECT_EQ(CudaSession(config_, together, data_.files).train(kUpdates), resident);
  }
}

TEST_P(CudaDeviceTest, HasTheSameBitsInAnyOrderOfStreamsAndWithoutGraphs) {
  const Outcome resident = CudaSession(config_, plan(1), data_.files).train(kUpdates);
  for (const Residency& residency : {elsewhere(true), elsewhere(true, Bytes{0})}) {
    const Plan moved = plan(1, BlockMode::recompute, residency);
    for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(seed);
      cuda::emulation::draw_order(seed);
      EXPECT_EQ(CudaSession(config_, moved, data_.files, CudaPace{static_cast<std::uint8_t>(seed % 3)}).train(kUpdates),
                resident);
    }
  }
}

TEST_P(CudaDeviceTest, EvaluatesBetweenUpdatesAndLeavesNoTrace) {
  const Plan plain = plan(2);
  const Outcome resident = CudaSession(config_, plain, data_.files).train(3);
  CudaSession session(config_, plain, data_.files);
  session.trainer().load(nullptr);
  std::vector<double> losses;
  for (int update = 0; update < 3; ++update) {
    session.trainer().update();
    losses.push_back(session.trainer().evaluate_now().loss);
  }
  EXPECT_EQ(session.trainer().hash_parameters(), resident.parameters);
  const Plan on_cpu = plan_with(config_, 2, {BlockMode::keep}, 1, data_.facts());
  Session cpu(config_, on_cpu, data_.files);
  cpu.trainer().load(nullptr);
  for (const double loss : losses) {
    cpu.trainer().update();
    EXPECT_NEAR(loss, cpu.trainer().evaluate_now().loss, GetParam() == DType::f32 ? 1e-4 : 2e-2);
  }
}

// The stamps of the device give each instruction its seconds, in order, and change no bit.
TEST_P(CudaDeviceTest, TimesEveryInstruction) {
  const Plan timed = plan(1, BlockMode::recompute);
  const Outcome plain = CudaSession(config_, timed, data_.files, CudaPace::kernels).train(2);
  CudaSession session(config_, timed, data_.files, CudaPace::kernels);
  InstructionTimer timer(session.program(), timed.graph, session.device());
  session.executor().add_observer(timer);
  timer.after_section([&](Section section, bool, double) {
    float end = 0;
    for (std::size_t i = 0; i < timer.last(section).size(); ++i) {
      const InstructionTimer::Span span = timer.last(section, i);
      ASSERT_TRUE(span.ran());
      EXPECT_GE(span.begin, end * (1 - 1e-5F));
      end = span.begin + span.seconds;
    }
  });
  EXPECT_EQ(session.train(2), plain);
  EXPECT_EQ(timer.runs(Section::update).all(), 2);
  double seconds = 0;
  for (std::size_t i = 0; i < timer.last(Section::micro).size(); ++i) seconds += timer.seconds(Section::micro, i).all();
  EXPECT_GT(seconds, 0);
}

TEST_P(CudaDeviceTest, TouchesExactlyThePlannedBytes) {
  for (const Residency& residency : {Residency{}, elsewhere(true), elsewhere(true, Bytes{0})}) {
    const Plan audited = plan(1, BlockMode::recompute, residency);
    CudaSession session(config_, audited, data_.files, CudaPace::kernels, Session::kBeyond);
    Audit audit(session.program(), audited.graph, session.device(), audited.arena + Session::kBeyond);
    session.executor().add_observer(audit);
    session.trainer().before_phase([&](Phase phase) { audit.enter(phase); });
    session.trainer().load(nullptr);
    session.trainer().update();
    session.trainer().evaluate_now();
    session.trainer().update();
    EXPECT_EQ(difference(audited, audit.phases()), "");
    for (std::size_t tier = 1; tier < audited.tiers.size(); ++tier) {
      const std::optional<TierUse> use = session.device().use_of(tier);
      ASSERT_EQ(use.has_value(), audited.stored[tier].n > 0) << tier;
      EXPECT_EQ(use.value_or(TierUse{}).height, audited.stored[tier]) << tier;
    }
    EXPECT_LE(CudaDevice::host_bytes(session.program()), pinned_bytes(audited.graph, audited.timeline));
  }
}

// Adafactor divides by moments that are zero before the first update. Biases of 1,152 numbers have moments that rest elsewhere.
TEST_P(CudaDeviceTest, StateOnTheHostBeginsAsZerosWhateverHasRun) {
  config_ = config_for({1, 288, 2, 9, 70}, 2);
  config_.precision.compute = GetParam();
  config_.optimizer.kind = OptimizerKind::adafactor;
  const Plan moved = plan(1, BlockMode::keep, elsewhere(true));
  EXPECT_GT(moved.stored[1].n, 0);
  EXPECT_EQ(CudaSession(config_, moved, data_.files).train(kUpdates), CudaSession(config_, plan(1), data_.files).train(kUpdates));
}

// With a disk there are no graphs. Otherwise all graphs exist before loading, with no more nodes than planned.
TEST_P(CudaDeviceTest, CapturesEverythingBeforeAnythingIsLoaded) {
  for (const Residency& residency : {Residency{}, elsewhere(true), elsewhere(true, Bytes{0})}) {
    const Plan moved = plan(1, BlockMode::recompute, residency);
    const auto reserved = std::ranges::find(moved.reserve, "graphs of the GPU", &ReserveItem::name);
    ASSERT_NE(reserved, moved.reserve.end());
    const cuda::emulation::Captures before = cuda::emulation::all_captures();
    CudaSession session(config_, moved, data_.files);
    const cuda::emulation::Captures made = cuda::emulation::all_captures();
    session.trainer().load(nullptr);
    session.trainer().update();
    session.trainer().evaluate_now();
    session.trainer().update();
    EXPECT_EQ(cuda::emulation::all_captures().graphs, made.graphs);
    const bool disk = moved.stored[2].n > 0;
    EXPECT_EQ(made.graphs - before.graphs, disk ? 0U : 5U) << "micro-steps and evaluation in two forms, the update in one";
    const auto work = static_cast<std::int64_t>(made.work - before.work);
    EXPECT_LE(kKiB * work, reserved->bytes);
    EXPECT_GE(kKiB * 4 * work, reserved->bytes);
    for (std::size_t tier = 1; tier < moved.tiers.size(); ++tier) {
      EXPECT_EQ(session.device().use_of(tier).value_or(TierUse{}).height, moved.stored[tier]) << tier;
    }
  }
}

// Contains products of every width and the losses, including those of evaluation. A processor's choices are not included, because
// planning asks for them.
TEST_P(CudaDeviceTest, SaysWhatItsLibraryChose) {
  const Plan plain = plan(2);
  CudaSession gpu(config_, plain, data_.files);
  std::map<std::string, int> ops;
  for (const auto& [kernel, algorithm] : gpu.executor().algorithms()) {
    EXPECT_FALSE(algorithm.empty()) << kernel;
    ++ops[kernel.substr(0, kernel.find('['))];
  }
  EXPECT_EQ(ops.size(), 3U);
  EXPECT_GE(ops["matmul"], 12) << "three for each of a block's four";
  EXPECT_EQ(ops["linear_cross_entropy"], 1);
  EXPECT_GE(ops["linear_cross_entropy_backward"], 1);

  const Plan on_cpu = plan_with(config_, 2, {BlockMode::keep}, 1, data_.facts());
  EXPECT_TRUE(Session(config_, on_cpu, data_.files).executor().algorithms().empty());
}

TEST(CudaRates, AreMeasuredByWorkThatRuns) {
  cuda::try_products();
  const cuda::Rates rates = cuda::measure_rates();
  EXPECT_GT(rates.graph_node, Bytes{0}) << "launches are counted whatever the driver says";
  for (const double rate : {rates.fp32_flops, rates.bf16_flops, rates.pass_bytes, rates.copy_bytes, rates.launch_seconds,
                            rates.in_bytes, rates.out_bytes, rates.in_alone_bytes, rates.out_alone_bytes}) {
    EXPECT_GT(rate, 0);
  }
}

TEST(EmulatedCapture, RefusesWhatCudaRefuses) {
  const cuda::Stream origin, other;
  cuda::Event before, inside;
  before.record(origin);
  std::byte a{}, b{};
  EXPECT_THROW(cuda::Graph(origin, [&] { other.copy(&a, &b, 1); }), Error);
  EXPECT_THROW(cuda::Graph(origin, [&] { origin.wait(before); }), Error);
  const auto forked = [&] {
    inside.record(origin);
    other.wait(inside);
    other.copy(&a, &b, 1);
  };
  EXPECT_THROW(cuda::Graph(origin, forked), Error);
  cuda::Event back;
  const cuda::Graph joined(origin, [&] {
    forked();
    back.record(other);
    origin.wait(back);
  });
  b = std::byte{7};
  joined.launch(origin);
  origin.synchronize();
  EXPECT_EQ(a, b);
}

INSTANTIATE_TEST_SUITE_P(Emulated, CudaDeviceTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& each) { return std::string(name(each.param)); });

}  // namespace
}  // namespace plimsoll
