// LoRA and DoRA on a GPU, over the emulation: they begin and train like those of the CPU, with the same bits for every residency
// and order of the streams, and in exactly the planned bytes.
#include <fmt/core.h>

#include <cstring>

#include "adapters/adapter.h"
#include "device/cuda/emulation_streams.h"
#include "run/cuda_session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 3;
const ModelShape kShape{2, 128, 2, 9, 70};

struct AdapterCase {
  AdapterKind kind;
  DType compute;
};

// The numbers of a value in fp32, wherever it rests.
std::vector<float> numbers(const Executor& executor, const Graph& graph, const std::string& name) {
  std::vector<float> all;
  executor.read(graph.find(name), [&](std::span<const std::byte> part) {
    const std::size_t before = all.size();
    all.resize(before + part.size() / sizeof(float));
    std::memcpy(all.data() + before, part.data(), part.size());
  });
  return all;
}

class CudaAdapters : public testing::TestWithParam<AdapterCase> {
 protected:
  CudaAdapters() {
    cpu::set_thread_count(2);
    config_.adapter.kind = GetParam().kind;
    config_.adapter.rank = 4;
    config_.adapter.dropout = 0.1;
    config_.adapter.rank_pattern = {{"c_fc", 6}};
    config_.adapter.modules_to_save = {"ln_f"};
    config_.precision.compute = config_.precision.parameters = GetParam().compute;
  }
  ~CudaAdapters() override { cuda::emulation::draw_order(0); }

  // Micro-batches of two samples.
  Plan plan(const Machine& machine, const Residency& residency = {}, BlockMode mode = BlockMode::keep) const {
    return plan_with(config_, 2, {mode}, 1, data_.facts(), residency, 1, machine);
  }
  static Residency elsewhere(Bytes near = Residency::kAllNear) {
    Residency residency{
        .pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = {.beyond = true}, .accumulators = {.beyond = true}};
    residency.near = near;
    return residency;
  }

  TokenData data_{kShape.vocab, 400, 90};
  Config config_ = config_for(kShape, 4);
};

class CudaDora : public CudaAdapters {};

TEST_P(CudaDora, BeginsWithTheCpusNorms) {
  const Plan on_cpu = plan(round_machine());
  Session cpu(config_, on_cpu, data_.files);
  cpu.trainer().load(nullptr);
  for (const Residency& residency : {Residency{}, elsewhere(), elsewhere(Bytes{0})}) {
    const Plan on_gpu = plan(round_gpu(), residency);
    CudaSession gpu(config_, on_gpu, data_.files);
    gpu.trainer().load(nullptr);
    for (const char* name : {"h.0.attn.c_attn", "h.1.mlp.c_fc", "h.1.mlp.c_proj"}) {
      for (const char* each : {"lora_norms", "lora_magnitude_vector"}) {
        const std::string full = fmt::format("{}.{}", name, each);
        EXPECT_EQ(numbers(gpu.executor(), on_gpu.graph, full), numbers(cpu.executor(), on_cpu.graph, full)) << full;
      }
    }
  }
}

TEST_P(CudaAdapters, TrainLikeThoseOfTheCpu) {
  const Plan on_gpu = plan(round_gpu()), on_cpu = plan(round_machine());
  CudaSession gpu(config_, on_gpu, data_.files);
  Session cpu(config_, on_cpu, data_.files);
  const Outcome of_gpu = gpu.train(kUpdates), of_cpu = cpu.train(kUpdates);
  const double within = GetParam().compute == DType::f32 ? 2e-5 : 2e-2;
  for (std::size_t i = 0; i < of_gpu.losses.size(); ++i) {
    const auto loss = std::bit_cast<double>(of_cpu.losses[i]), norm = std::bit_cast<double>(of_cpu.norms[i]);
    EXPECT_NEAR(std::bit_cast<double>(of_gpu.losses[i]), loss, within * loss) << i;
    EXPECT_NEAR(std::bit_cast<double>(of_gpu.norms[i]), norm, within * norm) << i;
  }
  if (GetParam().kind != AdapterKind::dora) return;
  const std::string norms = "h.1.mlp.c_fc.lora_norms";
  const std::vector<float> there = numbers(gpu.executor(), on_gpu.graph, norms),
                           here = numbers(cpu.executor(), on_cpu.graph, norms);
  const std::vector<float> magnitudes = numbers(gpu.executor(), on_gpu.graph, "h.1.mlp.c_fc.lora_magnitude_vector");
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_NEAR(there[i], here[i], within * here[i]) << i;
  EXPECT_NE(there, magnitudes) << "the norms have followed an update";
}

TEST_P(CudaAdapters, HaveTheSameBitsWhereverThingsRestInAnyOrderOfStreams) {
  const Outcome resident = CudaSession(config_, plan(round_gpu()), data_.files).train(kUpdates);
  std::uint64_t seed = 0;
  for (const auto& [mode, residency] :
       {std::pair{BlockMode::keep, elsewhere()}, std::pair{BlockMode::keep, elsewhere(Bytes{0})},
        std::pair{BlockMode::recompute, Residency{}}, std::pair{BlockMode::recompute, elsewhere(kKiB * 64)}}) {
    const Plan moved = plan(round_gpu(), residency, mode);
    SCOPED_TRACE(testing::Message() << static_cast<int>(mode) << " " << moved.stored[1].n << " " << moved.stored[2].n);
    cuda::emulation::draw_order(++seed);
    EXPECT_EQ(CudaSession(config_, moved, data_.files, CudaPace{static_cast<std::uint8_t>(seed % 3)}).train(kUpdates), resident);
  }
}

TEST_P(CudaAdapters, TouchExactlyThePlannedBytes) {
  for (const Residency& residency : {Residency{}, elsewhere(), elsewhere(Bytes{0})}) {
    const Plan audited = plan(round_gpu(), residency, BlockMode::recompute);
    EXPECT_EQ(audited_difference(config_, audited, data_.files), "");
  }
}

std::string name_of(const testing::TestParamInfo<AdapterCase>& each) {
  return fmt::format("{}_{}", each.param.kind == AdapterKind::lora ? "lora" : "dora", name(each.param.compute));
}
constexpr AdapterCase kLoras[] = {{AdapterKind::lora, DType::f32}, {AdapterKind::lora, DType::bf16}};
constexpr AdapterCase kDoras[] = {{AdapterKind::dora, DType::f32}, {AdapterKind::dora, DType::bf16}};
INSTANTIATE_TEST_SUITE_P(Lora, CudaAdapters, testing::ValuesIn(kLoras), name_of);
INSTANTIATE_TEST_SUITE_P(Dora, CudaAdapters, testing::ValuesIn(kDoras), name_of);
INSTANTIATE_TEST_SUITE_P(Emulated, CudaDora, testing::ValuesIn(kDoras), name_of);

}  // namespace
}  // namespace plimsoll
