#include "cli/explain.h"

namespace plimsoll {
namespace {

const WordExplanation kWords[] = {
    {"accumulation", "How many micro-batches make an update. Their gradients are added up, then the optimizer runs once."},
    {"activations", "Results of the forward pass that the backward pass reads. A plan keeps them or computes them again."},
    {"arena", "The one block of memory that holds every tensor of the training. Its size is the end of the highest buffer."},
    {"batch",
     "\"8 = 2 x 4\": an update sees 8 samples, in 4 micro-batches of 2 samples. The effective batch is yours; the planner may "
     "choose how it is split. The split decides how sums are rounded, so it decides the bits of the result."},
    {"blocks",
     "The repeated layers of a model. Each of them keeps all values that its backward pass reads (keep), recomputes values that "
     "are cheap for their bytes (cheap), or keeps only the values that cross between its parts (recompute). It may recompute in "
     "pieces or joined with the block before."},
    {"bound",
     "A lower bound on the bytes of the process: some single instruction needs them, in any order. The floor lies at or "
     "above it. For times, \"bound\" is a lower bound from the machine's rates, not a measurement."},
    {"budget", "The most that the whole process may take: arena, code, generated kernels, heap and stacks (--memory)."},
    {"ceiling", "The process with everything kept and nothing computed again: the fastest plan. More memory is of no use."},
    {"cheap", "A block recomputes only the values that cost little time for their bytes; the plan names them, or their number."},
    {"floor",
     "The smallest budget for which the planner has a plan. It tries every value of the keys that are auto. One page (4 KiB) "
     "less is refused with E-PLAN-FIT."},
    {"frontier", "Update time against the budget, from the floor to the ceiling: `plimsoll plan CONFIG --frontier`."},
    {"joined", "A block recomputes from the input of the previous block, so its own input need not be kept."},
    {"keep", "A block keeps everything that its backward pass reads."},
    {"knee", "The budget from which on more memory gains little: the smallest one whose update is within 3 % of the fastest."},
    {"lanes",
     "The times of kernels, transfers in and transfers out in an update. They run in parallel; if transfers take longer, the "
     "update waits for them."},
    {"levers",
     "The effects of single changes of the configuration on the bytes of the process and the time of an update. Each change was "
     "planned, within the same budget if it fits."},
    {"live",
     "Bytes of all buffers that hold something at a moment. The arena is at least as large as the most that is ever live."},
    {"load",
     "The most bytes that are live at once. No choice of addresses makes the arena smaller. Also the phase "
     "that reads or draws the weights at the start."},
    {"loss",
     "\"loss in 4 chunks\": the logits and the loss of a micro-batch are computed in 4 parts, one after the other, so that "
     "the logits never exist at once. The parts change no bit of the result."},
    {"micro-batch",
     "The samples that go through the model together. The planner chooses it unless train.micro_batch says so. It "
     "decides in which groups sums are rounded: another one gives other bits."},
    {"next MiB", "In the table of the frontier: the seconds of an update that each further MiB saves, up to the next row."},
    {"noise scale",
     "The number of samples whose mean gradient has as much noise as signal, measured with train.noise_every. It is an order of "
     "magnitude for the useful batch of AdamW; it says little for Lion."},
    {"optimizer state",
     "The values that the optimizer keeps for each parameter: two moments for adamw, one for lion and momentum."},
    {"owners",
     "The categories of the live bytes of a phase: parameters, gradients, optimizer state, activations and so on. They add up to "
     "the live bytes at the phase's peak."},
    {"phases",
     "load reads the weights; first is the first micro-batch of an update, which writes the gradients; steady is a later "
     "one, which adds to them, with the update; noise measures the gradients after the first one (train.noise_every); each "
     "forward "
     "pass (evaluate, generate) is one, and save writes files. Each has its own peak, and the arena holds the largest."},
    {"pieces",
     "Some nodes of a block run again more than once: on the way to the values between its parts, and for each part by itself."},
    {"process", "The whole process: the arena and the reserve. It never passes the budget."},
    {"recompute", "A block keeps its input alone and computes the rest again before its backward pass. Results do not change."},
    {"remedies", "Changes that make a refused configuration fit. Each was planned; changes that keep the results come first."},
    {"replays", "Nodes that run again, each before another node. All recomputation of a plan is in this list."},
    {"reserve",
     "The memory of the process outside the arena: code, generated kernels, heap, stacks, staging of transfers. Measured on "
     "the machine, rounded up, and part of the budget."},
    {"stall", "The time that the kernels of an update wait for transfers to and from other tiers."},
    {"tiers", "Places for bytes: the memory that kernels use, the memory of a host, a disk (--host-memory, --disk)."},
    {"time bound",
     "No plan within the budget is faster: every kernel runs once, and values without room in memory are computed again or cross "
     "a link, whichever is cheaper."},
    {"transfers", "Copies between the memory in which kernels run and other tiers. They run while kernels run."},
    {"update", "One step of the optimizer: all micro-batches of the effective batch, then the change of the parameters."},
};

}  // namespace

std::span<const WordExplanation> word_explanations() { return kWords; }

}  // namespace plimsoll
