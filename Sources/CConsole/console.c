#include "console.h"

// SwiftPM would embed the files as Swift array literals, which take long to compile; see CContract.
#pragma clang diagnostic ignored "-Wc23-extensions"

// Each file of `assets` is a list of bytes, and an entry of the table below.

static const uint8_t index_html[] = {
#embed "assets/index.html"
};
static const uint8_t style_css[] = {
#embed "assets/style.css"
};
static const uint8_t icon_svg[] = {
#embed "assets/icon.svg"
};
static const uint8_t act_js[] = {
#embed "assets/act.js"
};
static const uint8_t api_js[] = {
#embed "assets/api.js"
};
static const uint8_t app_js[] = {
#embed "assets/app.js"
};
static const uint8_t audit_js[] = {
#embed "assets/audit.js"
};
static const uint8_t channel_js[] = {
#embed "assets/channel.js"
};
static const uint8_t device_js[] = {
#embed "assets/device.js"
};
static const uint8_t dom_js[] = {
#embed "assets/dom.js"
};
static const uint8_t entities_js[] = {
#embed "assets/entities.js"
};
static const uint8_t failures_js[] = {
#embed "assets/failures.js"
};
static const uint8_t forms_js[] = {
#embed "assets/forms.js"
};
static const uint8_t graph_js[] = {
#embed "assets/graph.js"
};
static const uint8_t json_js[] = {
#embed "assets/json.js"
};
static const uint8_t jsonview_js[] = {
#embed "assets/jsonview.js"
};
static const uint8_t keys_js[] = {
#embed "assets/keys.js"
};
static const uint8_t lanes_js[] = {
#embed "assets/lanes.js"
};
static const uint8_t lists_js[] = {
#embed "assets/lists.js"
};
static const uint8_t live_js[] = {
#embed "assets/live.js"
};
static const uint8_t mutation_js[] = {
#embed "assets/mutation.js"
};
static const uint8_t mutations_js[] = {
#embed "assets/mutations.js"
};
static const uint8_t now_js[] = {
#embed "assets/now.js"
};
static const uint8_t operation_js[] = {
#embed "assets/operation.js"
};
static const uint8_t operations_js[] = {
#embed "assets/operations.js"
};
static const uint8_t organization_js[] = {
#embed "assets/organization.js"
};
static const uint8_t organizations_js[] = {
#embed "assets/organizations.js"
};
static const uint8_t parts_js[] = {
#embed "assets/parts.js"
};
static const uint8_t recent_js[] = {
#embed "assets/recent.js"
};
static const uint8_t signin_js[] = {
#embed "assets/signin.js"
};
static const uint8_t spark_js[] = {
#embed "assets/spark.js"
};
static const uint8_t steps_js[] = {
#embed "assets/steps.js"
};
static const uint8_t ui_js[] = {
#embed "assets/ui.js"
};
static const uint8_t upstream_js[] = {
#embed "assets/upstream.js"
};
static const uint8_t user_js[] = {
#embed "assets/user.js"
};

#define ASSET(name, bytes) {name, bytes, sizeof bytes}

static const struct console_asset assets[] = {
    ASSET("index.html", index_html),
    ASSET("style.css", style_css),
    ASSET("icon.svg", icon_svg),
    ASSET("act.js", act_js),
    ASSET("api.js", api_js),
    ASSET("app.js", app_js),
    ASSET("audit.js", audit_js),
    ASSET("channel.js", channel_js),
    ASSET("device.js", device_js),
    ASSET("dom.js", dom_js),
    ASSET("entities.js", entities_js),
    ASSET("failures.js", failures_js),
    ASSET("forms.js", forms_js),
    ASSET("graph.js", graph_js),
    ASSET("json.js", json_js),
    ASSET("jsonview.js", jsonview_js),
    ASSET("keys.js", keys_js),
    ASSET("lanes.js", lanes_js),
    ASSET("lists.js", lists_js),
    ASSET("live.js", live_js),
    ASSET("mutation.js", mutation_js),
    ASSET("mutations.js", mutations_js),
    ASSET("now.js", now_js),
    ASSET("operation.js", operation_js),
    ASSET("operations.js", operations_js),
    ASSET("organization.js", organization_js),
    ASSET("organizations.js", organizations_js),
    ASSET("parts.js", parts_js),
    ASSET("recent.js", recent_js),
    ASSET("signin.js", signin_js),
    ASSET("spark.js", spark_js),
    ASSET("steps.js", steps_js),
    ASSET("ui.js", ui_js),
    ASSET("upstream.js", upstream_js),
    ASSET("user.js", user_js),
};

size_t console_asset_count(void) { return sizeof assets / sizeof assets[0]; }

struct console_asset console_asset_at(size_t index) { return assets[index]; }
