-- Health of a Topic for Argo CD. Goes into the ConfigMap argocd-cm under
-- resource.customizations.health.tidemark.dev_Topic (see argocd-cm.yaml), or into
-- resource_customizations/tidemark.dev/Topic/health.lua of Argo CD itself.
local health = { status = "Progressing", message = "Waiting for the operator" }

if obj.metadata.annotations ~= nil and obj.metadata.annotations["tidemark.dev/paused"] == "true" then
  return { status = "Suspended", message = "Paused by the annotation tidemark.dev/paused" }
end

local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and obj.metadata.generation ~= nil
  and status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the operator to see the last edit"
  return health
end

local found = {}
for _, condition in ipairs(status.conditions) do
  found[condition.type] = condition
end
local ready = found["Ready"]
if ready ~= nil then
  health.message = ready.reason .. ": " .. (ready.message or "")
end
if found["Stalled"] ~= nil and found["Stalled"].status == "True" then
  health.status = "Degraded"
elseif ready ~= nil and ready.status == "True" then
  health.status = "Healthy"
end
return health
