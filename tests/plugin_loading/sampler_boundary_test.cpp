// Samplers that break the C contract: each fault is a named Error, and the host survives. The table
// is built here, so a fault is one function away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "dllm/error.hpp"
#include "dllm/sampler.hpp"
#include "error_of.hpp"

// The opaque handles of this test's sampler.
struct dllm_sampler {
  int destroyed = 0;
};
struct dllm_sampler_run {
  int ended = 0;
};

namespace dllm::test {
namespace {

using testing::HasSubstr;

dllm_sampler the_sampler;
dllm_sampler_run the_run;

dllm_status good_create(const dllm_option_value*, std::uint32_t, const dllm_model_facts*,
                        dllm_sampler** out, dllm_error*) {
  *out = &the_sampler;
  return DLLM_OK;
}
dllm_status good_start(const dllm_sampler*, const dllm_canvas*, std::uint64_t,
                       dllm_sampler_run** out, dllm_error*) {
  *out = &the_run;
  return DLLM_OK;
}
dllm_status good_plan(dllm_sampler_run*, const dllm_canvas*, dllm_plan*, dllm_error*) {
  return DLLM_OK;
}
dllm_status good_apply(dllm_sampler_run*, const dllm_canvas*, const dllm_stats*, dllm_edits*,
                       dllm_error*) {
  return DLLM_OK;
}

class SamplerBoundary : public testing::Test {
 protected:
  SamplerBoundary() {
    the_sampler = {};
    the_run = {};
    table.struct_size = sizeof table;
    table.create = good_create;
    table.destroy = [](dllm_sampler* sampler) { ++sampler->destroyed; };
    table.start = good_start;
    table.end = [](dllm_sampler_run* run) { ++run->ended; };
    table.plan = good_plan;
    table.apply = good_apply;
  }

  std::unique_ptr<Sampler> make() {
    return std::make_unique<Sampler>(nullptr, "odd", &table, infos, values, dllm_model_facts{});
  }
  // What creating, starting, planning and applying in turn throws.
  Error failure() {
    return error_of([&] {
      const auto sampler = make();
      SamplerRun run = sampler->start(canvas, 1);
      run.plan(canvas);
      run.apply(canvas, {});
    });
  }

  dllm_sampler_v1 table{};
  std::vector<OptionInfo> infos;
  OptionValues values;
  dllm_canvas canvas{};
};

TEST_F(SamplerBoundary, AGoodOneIsEndedAndDestroyedOnce) {
  {
    const auto sampler = make();
    SamplerRun run = sampler->start(canvas, 1);
    SamplerRun moved = std::move(run);
    run = std::move(moved);
    EXPECT_EQ(the_run.ended, 0);
  }
  EXPECT_EQ(the_run.ended, 1);
  EXPECT_EQ(the_sampler.destroyed, 1);
}

TEST_F(SamplerBoundary, OptionsArriveInTheOrderOfTheInfosWithTextAndNumbers) {
  infos.resize(2);
  infos[0].name = "z";
  infos[1].name = "a";
  values["a"] = {.text = "0.5", .integer = 0, .number = 0.5};
  values["z"] = {.text = "7", .integer = 7, .number = 7};
  table.create = [](const dllm_option_value* given, std::uint32_t count,
                    const dllm_model_facts* facts, dllm_sampler** out, dllm_error*) {
    EXPECT_EQ(count, 2u);
    EXPECT_STREQ(given[0].name, "z");
    EXPECT_STREQ(given[0].text, "7");
    EXPECT_EQ(given[0].integer, 7);
    EXPECT_STREQ(given[1].name, "a");
    EXPECT_EQ(given[1].number, 0.5);
    EXPECT_EQ(facts->struct_size, sizeof *facts);
    *out = &the_sampler;
    return DLLM_OK;
  };
  make();
}

TEST_F(SamplerBoundary, StructsArriveWithTheirSizesAndDefaults) {
  table.plan = [](dllm_sampler_run*, const dllm_canvas* seen, dllm_plan* out, dllm_error* error) {
    EXPECT_EQ(seen->struct_size, sizeof *seen);
    EXPECT_EQ(out->struct_size, sizeof *out);
    EXPECT_EQ(out->top_p, 1.0f);
    EXPECT_EQ(out->window_begin, 0u);
    EXPECT_EQ(out->window_end, 5u);
    EXPECT_EQ(error->struct_size, sizeof *error);
    return DLLM_OK;
  };
  canvas.n_positions = 5;
  const auto sampler = make();
  sampler->start(canvas, 1).plan(canvas);
}

TEST_F(SamplerBoundary, ABadOptionIsBadUsageAndKeepsItsRemedy) {
  table.create = [](const dllm_option_value*, std::uint32_t, const dllm_model_facts*,
                    dllm_sampler**, dllm_error* error) {
    std::strcpy(error->message, "steps 8 is less than blocks 9. Fix: give 9 or more steps.");
    return static_cast<dllm_status>(DLLM_BAD_OPTION);
  };
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_EQ(error.fact(), "steps 8 is less than blocks 9");
  EXPECT_EQ(error.where(), "sampler odd");
  EXPECT_EQ(error.fix(), "give 9 or more steps");
}

TEST_F(SamplerBoundary, AFailureIsBadPluginAndNamesTheSampler) {
  table.start = [](const dllm_sampler*, const dllm_canvas*, std::uint64_t, dllm_sampler_run**,
                   dllm_error* error) {
    std::strcpy(error->message, "out of luck");
    return static_cast<dllm_status>(DLLM_ERROR);
  };
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::bad_plugin);
  EXPECT_EQ(error.fact(), "out of luck");
  EXPECT_EQ(error.where(), "sampler odd");
}

TEST_F(SamplerBoundary, AFailureWithoutAMessageStillSaysWhichCallFailed) {
  table.plan = [](dllm_sampler_run*, const dllm_canvas*, dllm_plan*, dllm_error*) {
    return static_cast<dllm_status>(DLLM_ERROR);
  };
  EXPECT_EQ(failure().fact(), "plan() failed with status 1 and no message");
}

TEST_F(SamplerBoundary, AMessageWithoutTerminatorIsReadToTheBuffersEnd) {
  table.apply = [](dllm_sampler_run*, const dllm_canvas*, const dllm_stats*, dllm_edits*,
                   dllm_error* error) {
    std::memset(error->message, 'x', sizeof error->message);
    return static_cast<dllm_status>(DLLM_ERROR);
  };
  EXPECT_EQ(failure().fact(), std::string(sizeof(dllm_error::message), 'x'));
}

TEST_F(SamplerBoundary, AStatusTheAbiDoesNotDefineIsNamed) {
  table.plan = [](dllm_sampler_run*, const dllm_canvas*, dllm_plan*, dllm_error* error) {
    std::strcpy(error->message, "hm");
    return static_cast<dllm_status>(-7);
  };
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::bad_plugin);
  EXPECT_THAT(error.fact(), HasSubstr("plan() returned status -7"));
}

TEST_F(SamplerBoundary, SuccessWithoutAnObjectIsRefused) {
  table.start = [](const dllm_sampler*, const dllm_canvas*, std::uint64_t, dllm_sampler_run**,
                   dllm_error*) { return static_cast<dllm_status>(DLLM_OK); };
  EXPECT_THAT(failure().fact(), HasSubstr("start() reported success and gave no run"));
  table.create = [](const dllm_option_value*, std::uint32_t, const dllm_model_facts*,
                    dllm_sampler**, dllm_error*) { return static_cast<dllm_status>(DLLM_OK); };
  EXPECT_THAT(failure().fact(), HasSubstr("create() reported success and gave no sampler"));
}

TEST_F(SamplerBoundary, ExceptionsThatEscapeAreErrorsOfThePlugin) {
  table.apply = [](dllm_sampler_run*, const dllm_canvas*, const dllm_stats*, dllm_edits*,
                   dllm_error*) -> dllm_status { throw std::runtime_error("bad day"); };
  EXPECT_EQ(failure().code(), ErrorCode::bad_plugin);
  EXPECT_EQ(failure().fact(), "apply() let an exception escape: bad day");
  table.plan = [](dllm_sampler_run*, const dllm_canvas*, dllm_plan*, dllm_error*) -> dllm_status {
    throw 7;
  };
  EXPECT_THAT(failure().fact(), HasSubstr("plan() let an exception of unknown type escape"));
}

TEST_F(SamplerBoundary, ExceptionsOfCleanUpDoNotEndTheProcess) {
  static int ended = 0;
  static int destroyed = 0;
  table.end = [](dllm_sampler_run*) {
    ++ended;
    throw std::runtime_error("bad day");
  };
  table.destroy = [](dllm_sampler*) {
    ++destroyed;
    throw 7;
  };
  {
    make()->start(canvas, 1);
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(SamplerBoundary, CountsWithoutListsAreRefused) {
  table.plan = [](dllm_sampler_run*, const dllm_canvas*, dllm_plan* out, dllm_error*) {
    out->n_positions = 3;
    return static_cast<dllm_status>(DLLM_OK);
  };
  EXPECT_EQ(failure().fact(), "plan() named 3 positions and gave no list");
  table.plan = [](dllm_sampler_run*, const dllm_canvas*, dllm_plan* out, dllm_error*) {
    out->n_suppress_both = 2;
    return static_cast<dllm_status>(DLLM_OK);
  };
  EXPECT_EQ(failure().fact(), "plan() named 2 ids to suppress and gave no list");
  table.plan = good_plan;
  table.apply = [](dllm_sampler_run*, const dllm_canvas*, const dllm_stats*, dllm_edits* out,
                   dllm_error*) {
    out->n_edits = 4;
    return static_cast<dllm_status>(DLLM_OK);
  };
  EXPECT_EQ(failure().fact(), "apply() named 4 edits and gave no list");
}

TEST_F(SamplerBoundary, AnUnknownRunStatusIsRefused) {
  table.apply = [](dllm_sampler_run*, const dllm_canvas*, const dllm_stats*, dllm_edits* out,
                   dllm_error*) {
    out->status = 5;
    return static_cast<dllm_status>(DLLM_OK);
  };
  EXPECT_THAT(failure().fact(), HasSubstr("apply() set run status 5"));
}

}  // namespace
}  // namespace dllm::test
