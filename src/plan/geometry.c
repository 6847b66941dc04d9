/* SPDX-License-Identifier: Apache-2.0
 *
 * Workgroup counts of a pass (package format 2.A.14; list dialect 2.B.5).
 */
#include <math.h>

#include "plan/planner.h"

enum { FOLD_WIDTH = 65535 };

static const char axis_names[] = "xyz";

static nib_status eval_size(nib_pass_build *b, const nib_expr *expr, const char *key, double *out)
{
    nib_value value;
    const nib_status status = nib_planner_eval(b->p, expr, b->scope, &value);
    if (status != NIB_OK) {
        nib_error_path_prefix(b->p->error, "dispatch.%s", key);
        return status;
    }
    if (nib_value_is_number(value)) {
        *out = value.as.number;
        return NIB_OK;
    }
    nib_fail(b->p->error, NIB_EVAL, "pass '%.*s': dispatch.%s is %s; it must be a number",
             NIB_STR_ARG(b->pass->id), key, nib_value_label(value).text);
    nib_error_path_prefix(b->p->error, "dispatch.%s", key);
    return NIB_EVAL;
}

/* `g` workgroups over two axes of at most `width`. */
static void fold(double g, double width, double folded[2])
{
    folded[0] = fmin(g, width);
    folded[1] = ceil(g / width);
    if (isnan(g)) /* fmin drops a NaN */
        folded[0] = g;
}

/* Put the folded pair on the axes that are not pinned, in x, y, z order (list dialect). */
static nib_status place_folded(nib_pass_build *b, const double folded[2], double axes[3])
{
    const nib_dispatch *dispatch = &b->pass->pass->dispatch;
    size_t next = 0;
    for (size_t i = 0; i < 3; i++) {
        const char key[2] = {axis_names[i], '\0'};
        if (dispatch->axis[i].program)
            NIB_TRY(eval_size(b, &dispatch->axis[i], key, &axes[i]));
        else
            axes[i] = next < 2 ? folded[next++] : 1;
    }
    return NIB_OK;
}

static nib_status explicit_axes(nib_pass_build *b, double axes[3])
{
    const nib_dispatch *dispatch = &b->pass->pass->dispatch;
    for (size_t i = 0; i < 3; i++) {
        const char key[2] = {axis_names[i], '\0'};
        axes[i] = 1;
        if (dispatch->axis[i].program)
            NIB_TRY(eval_size(b, &dispatch->axis[i], key, &axes[i]));
    }
    return NIB_OK;
}

static const char *count_key(nib_dispatch_form form)
{
    if (form == NIB_DISPATCH_THREADS)
        return "threads";
    return form == NIB_DISPATCH_WORKGROUPS ? "workgroups" : "gridStride";
}

/* The number of workgroups that a shorthand asks for. */
static nib_status workgroup_count(nib_pass_build *b, double *out)
{
    const nib_dispatch *dispatch = &b->pass->pass->dispatch;
    NIB_TRY(eval_size(b, &dispatch->count, count_key(dispatch->form), out));
    if (!dispatch->workgroup_size.program)
        return NIB_OK;
    double size;
    NIB_TRY(eval_size(b, &dispatch->workgroup_size, "workgroupSize", &size));
    *out = ceil(*out / size);
    return NIB_OK;
}

static nib_status shorthand_axes(nib_pass_build *b, double axes[3])
{
    const bool list = b->p->contract->dialect == NIB_DIALECT_LIST;
    const double limit = nib_caps_limit(b->p->caps, "maxComputeWorkgroupsPerDimension");
    const double width = list ? limit : (double)FOLD_WIDTH;
    double g, folded[2];
    NIB_TRY(workgroup_count(b, &g));
    if (b->pass->pass->dispatch.form == NIB_DISPATCH_GRID_STRIDE) {
        axes[0] = isnan(g) ? g : fmin(g, width);
        axes[1] = axes[2] = 1;
        return NIB_OK;
    }
    fold(g, width, folded);
    return place_folded(b, folded, axes);
}

static nib_status check_axis(nib_pass_build *b, size_t axis, double count)
{
    const double limit = nib_caps_limit(b->p->caps, "maxComputeWorkgroupsPerDimension");
    const nib_label text = nib_value_label(nib_value_number(count));
    nib_status status = NIB_OK;
    if (!(count >= 0 && isfinite(count) && trunc(count) == count))
        status = nib_fail(
            b->p->error, NIB_EVAL,
            "pass '%.*s': dispatch.%c is %s; a workgroup count must be a non-negative integer",
            NIB_STR_ARG(b->pass->id), axis_names[axis], text.text);
    else if (count > limit)
        status =
            nib_fail(b->p->error, NIB_LIMIT,
                     "pass '%.*s': dispatch.%c is %s; maxComputeWorkgroupsPerDimension is %.0f",
                     NIB_STR_ARG(b->pass->id), axis_names[axis], text.text, limit);
    if (status != NIB_OK)
        nib_error_path_prefix(b->p->error, "dispatch");
    return status;
}

nib_status nib_pass_dispatch(nib_pass_build *b)
{
    double axes[3];
    if (b->pass->pass->dispatch.form == NIB_DISPATCH_EXPLICIT)
        NIB_TRY(explicit_axes(b, axes));
    else
        NIB_TRY(shorthand_axes(b, axes));
    b->pass->active = true;
    for (size_t i = 0; i < 3; i++) {
        NIB_TRY(check_axis(b, i, axes[i]));
        b->pass->dispatch[i] = (unsigned)axes[i];
        if (b->pass->dispatch[i] == 0)
            b->pass->active = false;
    }
    return NIB_OK;
}
