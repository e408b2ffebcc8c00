// The Worker that wrangler_work.py asks to do the work, by POST of JSON.
import { WorkflowEntrypoint } from "cloudflare:workers";

const ended = new Set(); // ids of instances whose run() has ended in this process

export class Steps extends WorkflowEntrypoint {
  async run(event, step) {
    const { steps, seconds } = event.payload;
    for (let number = 0; number < steps; number++) {
      await step.do(`step ${number}`, async () => {
        if (seconds) await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
        return { done: true };
      });
    }
    ended.add(event.instanceId);
  }
}

export class Waiter extends WorkflowEntrypoint {
  async run(event, step) {
    await step.waitForEvent("answer", { type: "answer", timeout: "1 hour" });
    ended.add(event.instanceId);
  }
}

const routes = {
  "/create": async (env, { ids, params }) => {
    await env.STEPS.createBatch(ids.map((id) => ({ id, params })));
  },
  "/park": async (env, { id }) => {
    await env.WAITER.create({ id });
  },
  "/send": async (env, { id }) => {
    await (await env.WAITER.get(id)).sendEvent({ type: "answer", payload: { n: 1 } });
  },
  // Those of the ids that have finished. To ask for a status keeps an engine from its work: only those are asked for whose
  // run() has ended, unless it may have been in another process.
  "/finished": async (env, { binding, ids, restarted }) => {
    const asked = restarted ? ids : ids.filter((id) => ended.has(id));
    const status = async (id) => (await (await env[binding].get(id)).status()).status;
    const statuses = await Promise.all(asked.map(status));
    return asked.filter((_, number) => statuses[number] === "complete");
  },
};

export default {
  async fetch(request, env) {
    if (request.method === "GET") return Response.json(null); // is it up?
    const answer = await routes[new URL(request.url).pathname](env, await request.json());
    return Response.json(answer ?? null);
  },
};
